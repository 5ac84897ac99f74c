"""What is worth tracing, and when: the policy of docs/design/policy.md, for hooked packages.

A package has thousands of functions, of which a program calls most a few
times. One is traced once it has been called often enough with tensors, the
outermost that is called again first, and as long as tracing keeps to its share
of the program's time. What turned out not to be worth it gets a verdict, which
is stored: its body runs, and its callees are stubs of their own. Nothing in
here changes a result.
"""

from __future__ import annotations

import atexit
import functools
import sys
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aotdyn import config
from aotdyn.report import events

if TYPE_CHECKING:
    from aotdyn.runtime.entry import Entry
    from aotdyn.runtime.variant import Variant

PATIENCE = 16
"Calls, for each call of a caller that may be traced itself, in which a function waits for that. It may have many."
QUIET = {"packages": 16, "program": 512}
"By terms: calls of a function that met no tensor, after which it is looked ever more rarely whether one does."
LOOKS = {"packages": 8, "program": 64}
"So many more looks, and none found any in thousands of calls: it isn't looked at again."
LATEST = 4096
"Calls that go by at most until what was put off asks again."
SETTLING = 32
"In a process that finds what earlier ones have stored, so many times as many: it has no time for it soon."
COUNTED = 3
"So many calls and more that are only to be counted are counted by a dispatcher that does nothing else."
FREE = 2.0
"Seconds that tracing may take of the program that is run, whatever its share."
MAKES_UP = 6.0
"Seconds that it may take of whatever in a process that makes up for another; and no more than the program itself."
LOADING = {"aotdyn.trace.api": 0.5, "torch._dynamo": 1.0}
"Seconds that what tracing needs takes to load: the first trace has to afford that as well."
EARLY = 1.25
"Seconds that tracing may take of packages, whatever its share, in a process that finds no records."
REWRITING = 2.0
"Seconds that stubs of packages may take whatever the share; in a process that finds stored ones a quarter of them."
LATER = 5.0
"""By this the packages' share is divided in a process that finds what an earlier one has stored.

Little is left to be done there."""
SETTLED = 15.0
"Seconds that the share must exceed in such a process: a program that is run again and again settles."
SILENT = 4
"One whose code names no operation on tensors waits for so many times as many calls."
OWED, WAITED = 4, 12
"What was called so often and put off in a process, or so often while it waited, is what the next makes up for."
LOADS = 1.0
"Seconds that reading what is stored may take, whatever the share."
AGAIN = 4
"There a function waits for so many times as many calls: an earlier process has seen it called."
DEBT = 1.0
"Seconds that one trace may take beyond what the budget has left."
POOR = 2
"Traces that weren't worth it, and none that was: a verdict."
SEGMENTS = 3
"Graphs of one function after which they are judged together."
PROVEN = 2
"A variant that has served so many times the calls that were waited for doesn't delay the next."
FEW, REUSED = 3, 4
"So many variants have to serve so many calls each before another is made."
LOOK = 5e-6
"Seconds that a look at a variant takes which doesn't fit, and its share of what Python does around it."
GUARDS = 50
"Guards that take as long as one operation saves."
ASIDE = frozenset(
    f"__{name}__"
    for name in (
        *("init", "new", "post_init", "init_subclass", "set_name", "del", "class_getitem"),
        *("getattr", "setattr", "delattr", "dir", "hash", "repr", "str", "format", "sizeof"),
        *("copy", "deepcopy", "getstate", "setstate", "reduce", "reduce_ex", "getnewargs", "getnewargs_ex"),
    )
)
"""Methods by which Python makes, keeps, copies, stores and shows objects.

They are traced where a caller is, never by themselves."""
SPENT = ("rewrite", "trace", "lower", "load", "store")
"Phases of `events` that the budget pays for; for packages compiling as well."


class Account:
    """What tracing a function, continuations included, has brought so far."""

    def __init__(self) -> None:
        self.entries: weakref.WeakSet[Entry] = weakref.WeakSet()
        self.program = False
        "whether the function is of the program that is run"
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.traces = self.operations = self.poor = 0
        self.rich = False
        self.pays = False
        "its calls were weighed, in this process or an earlier one, and save more than they cost"
        self.verdict = ""
        "why the function is left to Python; empty where it isn't"

    def judge(self, variant: Variant) -> tuple[str, bool]:
        """Take in what a trace has brought: a verdict, empty while there is none; and whether the variant is kept.

        Behind a break more may follow, so what breaks is judged with that.
        """
        self.traces += 1
        self.operations += 0 if variant.leave else variant.operations
        reason = self._poor(variant)
        if not reason:
            self.rich = self.rich or variant.operations > 1
            pieces = self.traces >= SEGMENTS and self.operations < 2 * self.traces
            return (f"captures {self.operations} operations in {self.traces} graphs" if pieces else "", True)
        self.poor += 1
        at_once = variant.leave and not variant.prepares and not variant.spec.offset
        if at_once or (self.poor >= POOR and not self.rich):
            return reason, False
        return "", self.rich or variant.prepares

    def _poor(self, variant: Variant) -> str:
        """Why a variant isn't worth its guards; empty where it is."""
        if variant.leave:
            return variant.leave
        if len(variant.guards) > GUARDS * max(variant.operations, 1):
            return f"{len(variant.guards)} guards cost more than {variant.operations} operations save"
        if self.operations < 2 and not variant.breaks:
            return f"captures only {self.operations} operations"
        return f"rests on a fact of this process: {variant.process_local[0]}" if variant.process_local else ""

    def leave(self, reason: str) -> None:
        """Leave the function to Python, whatever was made of it."""
        from aotdyn.runtime import retired

        self.verdict = reason
        for entry in list(self.entries):
            entry.drop()
            if not entry.spec.offset:
                retired.retire(entry.name, entry.spec.qualname, entry.globals)


accounts: dict[tuple[str, str, str], Account] = {}
"By module, qualified name and digest of the code."

_options: config.Options | None = None

warm = False
"Whether the store has had something for a function under thrift."

making_up = False
"Whether it has named a function that one process has put off, and none after that: this one makes up for it."

_made_up = False
"Whether it has named what a process that made up for another has stored: none of the later ones does, too."

_put_off: dict[str, str] = {}
_owed: dict[str, str] = {}
"What of that is the program's own."

_owing: dict[str, Entry] = {}
"Functions of packages that were put off, by name."

_inherited: dict[str, Entry] = {}
"Functions that an earlier process has put off, and this one is to make up for, by name."

_heat: dict[str, int] = {}
"How often what was put off has been called."


def account(entry: Entry) -> Account:
    """The account of an entry's function."""
    spec = entry.spec
    found = accounts.setdefault((spec.module, spec.qualname, spec.digest), Account())
    found.entries.add(entry)
    _at_the_end()
    return found


def terms(program: bool) -> str:
    """Under which terms a hooked function is: `program`, `packages`, or none; an argument says whose it is.

    The program that is run wants to be compiled: what it calls is traced at its
    first call, while that doesn't take too long.
    """
    global _options
    _options = config.current()
    thrift = _options.thrift
    return "" if thrift == "off" else "program" if program and thrift == "packages" else "packages"


def chosen() -> config.Options:
    """The options as they were when a function last came under its terms: to read them takes its time."""
    return _options or config.current()


def unasked(beyond: int) -> int:
    """How many calls go by without a look whether they meet tensors, behind so many that met none beyond `QUIET`."""
    return 16 << min(beyond, 6)


def time_left(terms: str, owed: bool = False) -> float:
    """Seconds that tracing may take now; below 0 where it has had more than its share already.

    Both sides are counted in work of a processor, so that a busy machine changes nothing. `owed` says that several
    processes have put the function off: no further one spends the program's own seconds on it again.
    """
    elapsed = _elapsed()
    share = chosen().thrift_share * elapsed
    loading = 0.0
    if "aotdyn.trace.api" not in sys.modules:
        loading = sum(seconds for module, seconds in LOADING.items() if module not in sys.modules)
    spent = events.spent(SPENT)
    makes_up = min(MAKES_UP, elapsed - spent)
    if terms == "program":
        free = 0.0 if owed else makes_up if making_up else FREE
        return max(share - loading, free) - spent
    if making_up:
        return max(share, makes_up) - loading - spent
    if warm:
        return max(share - SETTLED, 0.0) / LATER - loading - spent
    return max(share, EARLY) - loading - events.spent((*SPENT, "compile"))


def _elapsed() -> float:
    return min(time.perf_counter() - events.started, time.process_time())


def may_rewrite(module: str, known: bool) -> bool:
    """Whether there is time to give a package's module its stubs; else it is loaded as it is, and told as put off.

    `known` says that this process has found modules that an earlier one has rewritten.
    """
    if terms(False) != "packages":
        return True
    share = chosen().thrift_share * time.process_time()
    free = REWRITING / AGAIN if known else REWRITING
    if events.spent(("rewrite",)) < max(free, share / LATER if known else share):
        _put_off.pop(module, None)
        return True
    _put_off[module] = "its stubs: rewriting has had its share of the time (thrift_share)"
    return False


def too_busy(entry: Entry) -> bool:
    """Whether there is no time even to look what the store holds for a function."""
    if entry.lines or entry.extent.sparing == "program":
        return False
    if (spent := events.spent(("load",))) <= LOADS or spent <= chosen().thrift_share * _elapsed():
        return False
    return not _put(entry, "loading has had its share of the time (thrift_share)")


def is_due(entry: Entry, frame: Any, args: Sequence[Any]) -> bool:
    """Whether a call that nothing serves is to be traced now; else notes after how many calls to ask again.

    `frame` is where to begin to look for the callers, `args` what the dispatcher was given. `entry.unserved` counts
    such calls, this one included.
    """
    terms, calls = entry.extent.sparing, entry.unserved
    if terms == "program":
        return _is_due_now(entry)
    if entry.spec.offset:
        return time_left(terms) > 0 or _put(entry)
    if entry.account is not None and (reason := _never(entry, args)):
        entry.account.leave(reason)
        return False
    wanted = _wanted(entry, args)
    if calls < wanted:
        if not entry.variants and wanted - calls >= COUNTED:
            entry.pause(wanted - calls - 1)  # until then they are only counted
        return False
    if _waits(entry, frame):
        # Where there is no time either, looking up the stack again and again would be all that it costs.
        entry.pause(min(calls, PATIENCE) // 2 if time_left(terms) > 0 else _later(calls))
        return False
    if entry.needs and 2 * entry.needs > time_left(terms) + DEBT:
        return _put(entry, f"tracing takes more than {entry.needs:.1f} s")
    return _has_turn(entry) or _put(entry)


def _never(entry: Entry, args: Sequence[Any]) -> str:
    """Why a package's function is never traced by itself; empty for most."""
    if entry.spec.qualname.rpartition(".")[2] in ASIDE:
        return "a method that makes, keeps or shows an object: it is traced with what calls it"
    if entry.spec.cells and entry.ran == 1:
        from aotdyn.runtime import callers

        if callers.wraps(entry.code(), args[len(args) - len(entry.spec.cells) :]):
            return "a wrapper: what it hands its arguments on to is traced by itself"
    return ""


def _wanted(entry: Entry, args: Sequence[Any]) -> int:
    """How many calls in a row that nothing serves a package's function waits for."""
    made = entry.made_for(args, PROVEN * chosen().thrift_calls)
    if entry.ripe and (entry.postponed or made < 2):
        return 1
    calls = chosen().thrift_calls << max(made - 1, 0)
    if warm and not making_up:
        calls *= AGAIN
    if entry.unserved >= calls and entry.silent is None:
        from aotdyn.runtime import worth  # which imports torch: packages are hooked before that is there

        entry.silent = not worth.names_operations(entry.code())
    return calls * SILENT if entry.silent and not entry.variants else calls


def never_repeats(entry: Entry, made: int) -> bool:
    """Whether `made` variants, that a call misses for what moves, served too few calls for another to be worth it."""
    return entry.account is not None and made >= FEW and entry.graph_calls() < REUSED * made


def _has_turn(entry: Entry) -> bool:
    """Whether the budget has room, and nothing that waits for it is much hotter."""
    if time_left(entry.extent.sparing) <= 0:
        return False
    hottest = max(_heat, key=lambda name: _heat[name], default="")
    if not entry.ripe and _heat.get(hottest, 0) > 4 * entry.unserved and hottest != name(entry):
        _heat[hottest] //= 2  # it may not be called any more
        return False
    _heat.pop(name(entry), None)
    _put_off.pop(name(entry), None)
    _owed.pop(name(entry), None)
    return True


def _is_due_now(entry: Entry) -> bool:
    """Whether a function of the program is to be traced at this call: while that doesn't take too long."""
    left = time_left("program", entry.postponed > 1)
    if left <= 0:
        return _put_for_good(entry)
    if entry.needs > left + (0.0 if entry.postponed > 1 else DEBT):
        return _put(entry, f"tracing takes more than {entry.needs:.1f} s")
    _put_off.pop(name(entry), None)
    _owed.pop(name(entry), None)
    return True


def _put_for_good(entry: Entry) -> bool:
    """Put a function of the program off, and let the next process know; answers False."""
    if not entry.needs or entry.postponed == 1:
        _keep(entry, "tracing has had its share of the time", DEBT)
        entry.needs, entry.postponed = DEBT, max(entry.postponed, _again())
    return _put(entry)


def _put(entry: Entry, reason: str = "tracing has had its share of the time (thrift_share)") -> bool:
    """Put a function off, and tell; answers False."""
    calls = max(entry.unserved, 1)
    _heat[name(entry)] = calls
    _put_off[name(entry)] = reason
    if entry.account is not None and entry.account.program:
        _owed[name(entry)] = reason
    if entry.extent.sparing == "packages" and entry.postponed < 2:
        _owing[name(entry)] = entry
    entry.pause(_later(calls))
    return False


def _again() -> int:
    """What is put off by a process that makes up for others won't be made by the next one, or that would never end."""
    return 2 if warm else 1


def _keep(entry: Entry, reason: str, seconds: float = 0.0) -> None:
    """Store that a function was put off."""
    from aotdyn.runtime import cold

    entry.clear_debts()
    cold.keep_verdict(entry.spec, entry.extent, reason, seconds=seconds, postponed=_again())


def heeds(stored: list[Variant]) -> None:
    """The store has something for a function under thrift."""
    global warm, making_up, _made_up
    warm = True
    if any(each.made_up for each in stored):
        making_up, _made_up = False, True


def inherit(entry: Entry) -> bool:
    """Whether this process makes up for a function. If it doesn't, none will: each would spend its seconds again."""
    global making_up
    making_up = not _made_up
    _inherited[name(entry)] = entry
    return making_up


@functools.cache
def _at_the_end() -> None:
    """Have `_keep_owed` called when the process ends."""
    atexit.register(_keep_owed)


def _keep_owed() -> None:
    """At the end of the process: let the next one know what of packages was often called, and left to Python.

    One that finds no records owes what still waits for its turn as well.
    """
    waiting = {} if warm else {name(entry): entry for entry in _undecided()}
    for called, entry in {**waiting, **_owing}.items():
        if called in _owing and called not in _put_off:
            continue
        often = OWED if called in _put_off else WAITED
        if entry.ran >= often * (SILENT if entry.silent else 1):
            _keep(entry, _put_off.get(called, "it was called often, and waited for its turn"))
            _inherited.pop(called, None)
    for entry in _inherited.values():
        if entry.postponed == 1:  # it wasn't made
            _keep(entry, "it was put off, and not made up for", entry.needs)
    _owing.clear()
    _inherited.clear()


def _undecided() -> list[Entry]:
    """The functions of packages that nothing was made for, though it may be yet."""
    entries = [entry for account in accounts.values() for entry in account.entries]
    packages = [entry for entry in entries if entry.extent.sparing == "packages" and not entry.spec.offset]
    return [entry for entry in packages if entry.undecided() and not entry.variants]


def _later(calls: int) -> int:
    """How many calls go by before a function is asked for again that was called so often."""
    further = calls * SETTLING if warm and not making_up else calls
    return max(1, min(further // 2, LATEST))


def name(entry: Entry) -> str:
    """The function's name, as it is told."""
    return f"{entry.spec.module}.{entry.spec.qualname}"


def _waits(entry: Entry, frame: Any) -> bool:
    """Whether a caller that is called again, too, may be traced instead, with this one inlined in it.

    What runs while a module is being made waits as well.
    """
    from aotdyn.runtime import callers, cold

    if callers.under_construction(frame):
        return True
    if entry.ripe:
        return False
    ran, waits = entry.callers_ran, False
    while frame is not None:
        caller = cold.entry_of(frame.f_code)
        if caller is not None and caller is not entry and caller.undecided():
            ran[caller.name] = max(caller.ran, 1)
            waits = True
        frame = frame.f_back
    return waits and entry.ran < PATIENCE * sum(ran.values())


def bounded(options: config.Options, terms: str) -> config.Options:
    """The options of one trace under thrift: it may not take much more than is left."""
    import msgspec

    beyond = DEBT / LATER if warm and not making_up and terms == "packages" else DEBT
    seconds = min(options.max_seconds, max(time_left(terms), 0.0) + beyond)
    return msgspec.structs.replace(options, max_seconds=seconds)


def is_worth(entry: Entry, variant: Variant) -> bool:
    """Whether what was traced is worth keeping; else the policy's verdict stands, and is stored."""
    from aotdyn.runtime import cold

    assert entry.account is not None
    if entry.extent.sparing == "program" and not variant.seconds:
        return True
    if variant.seconds and not entry.spec.offset:
        entry.needs = variant.seconds
        cold.keep_verdict(entry.spec, entry.extent, variant.leave, seconds=variant.seconds)
        return _put(entry, variant.leave)
    reason, kept = entry.account.judge(variant)
    origin = next((each for each in entry.account.entries if not each.spec.offset), None)
    if not reason:
        if not kept and origin is not None:
            cold.keep_verdict(origin.spec, entry.extent, "a trace was poor", poor=entry.account.poor)
        return kept
    leave(entry, reason)
    return False


def rarely_fits(entry: Entry) -> bool:
    """Leave a function to Python whose calls lose more by looks at variants of which none fits than the others save.

    While variants are still made, and where there is only no time for them, it isn't judged.
    """
    from aotdyn.runtime import weighing

    if making_up or not (warm or entry.closed or entry.rests):
        return False
    served = entry.graph_calls()
    gain = sum(line.graph_calls() * weighing.saves(line) for line in entry.lines)
    if gain >= entry.misfit * len(entry.lines) * LOOK:
        return False
    leave(entry, f"{entry.misfit} calls fitted none of its graphs, and {served} did")
    return True


def leave(entry: Entry, reason: str, **more: Any) -> None:
    """Leave an entry's function to Python; `more` says what the verdict holds for."""
    from aotdyn.runtime import cold

    account = entry.account
    assert account is not None
    for origin in account.entries:
        if not origin.spec.offset:
            cold.keep_verdict(origin.spec, entry.extent, reason, **more)
    account.leave(reason)
    events.left_alone(name(entry), reason)


def owed() -> dict[str, str]:
    """What was put off of the program's own functions, with the reasons: such a process isn't warm."""
    return dict(_owed)


def _told() -> dict[str, Any]:
    return {"put_off": [{"function": name, "reason": reason} for name, reason in _put_off.items()]}


events.add_source(_told)
