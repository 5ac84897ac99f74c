"""Continuations: each sample, broken at every instruction, does what plain Python does."""

from __future__ import annotations

import builtins
import copy
import dis
import gc
import marshal
import sys
import weakref
from types import FunctionType

import pytest

from aotdyn.rewrite import blocks, dialect, digest, names, originals, points, stubs
from tests.rewrite.fake_runtime import Continuation, Stepper, enter, installed, outcome
from tests.rewrite.samples import CASES, Manager

IDS = [f"{function.__name__}-{i}" for i, (function, _, _) in enumerate(CASES)]


def observed(function, call, args, keywords):
    """What a call does: outcome, what became of its first argument, closure put back."""
    args = copy.deepcopy(args)
    cells = [(cell, cell.cell_contents) for cell in function.__closure__ or () if repr(cell).find("empty") < 0]
    result = outcome(lambda: call(*args, **keywords))
    for cell, value in cells:
        cell.cell_contents = value
    return repr(result), repr(getattr(args[0], "__dict__", args[0]))


FORMS = {"function": 0, "block": 1, "mixed": 2}
"""In which form continuations run: as functions, in the function's own code, or by turns; how often a block comes."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("function", "args", "keywords"), CASES, ids=IDS)
def test_break_at_every_instruction(function, args, keywords, form):
    with installed():
        plain = observed(function, function, args, keywords)
        stepper = Stepper(function)
        assert observed(function, stepper.run(10**9), args, keywords) == plain
        steps = stepper.steps
        assert steps > 2
        if FORMS[form]:
            stepper.into_blocks(FORMS[form])
            assert observed(function, stepper.run(10**9), args, keywords) == plain
            assert stepper.steps == steps
        for limit in range(min(steps, 400)):
            assert observed(function, stepper.run(limit), args, keywords) == plain, f"native from step {limit} on"


def test_samples_reach_what_matters():
    seen = set()
    with installed():
        for function, args, keywords in CASES:
            stepper = Stepper(function)
            observed(function, stepper.run(10**9), args, keywords)
            seen |= stepper.seen
    known = set(dialect.version._FIXED) | set(dialect.version._COUNTED) | dialect.version.CONDITIONAL
    rare = {
        *("PRINT_EXPR", "IMPORT_STAR", "STORE_NAME", "DELETE_NAME", "LOAD_NAME", "LOAD_CLASSDEREF"),
        *("SETUP_ANNOTATIONS", "NOP", "PRECALL", "KW_NAMES", "PREP_RERAISE_STAR", "CHECK_EG_MATCH"),
        *("JUMP_BACKWARD_NO_INTERRUPT", "MATCH_KEYS", "PUSH_EXC_INFO", "POP_EXCEPT"),
    }
    assert known - seen <= rare


@pytest.mark.parametrize("form", FORMS)
def test_ten_thousand_breaks_dont_recurse(form):
    def loop(n):
        total = 0
        for i in range(n):
            total += i
        return total

    with installed():
        stepper = Stepper(loop)
        if FORMS[form]:
            assert stepper.run(10**9)(10) == loop(10)
            stepper.into_blocks(FORMS[form])
        assert stepper.run(10**9)(10_000) == loop(10_000)
        assert stepper.steps > 40_000


def test_blocks_keep_the_frame():
    seen = []

    def frames(n):
        for _ in range(n):
            try:
                seen.append(sys._getframe())
                seen.append(sys._getframe(1))
                {}[n]
            except KeyError:
                with Manager(log=seen):
                    seen.append(sys._getframe())
        return seen

    with installed():
        stepper = Stepper(frames)
        stepper.run(10**9)(3)
        stepper.into_blocks()
        setattr(builtins, names.ENTER, "not callable")
        seen.clear()
        stepper.run(10**9)(3)
    assert stepper.steps > 100
    assert {id(frame) for frame in seen[::5]} == {id(frame) for frame in seen[3::5]} == {id(seen[0])}
    assert seen[0].f_code is stepper.function.__code__
    here = sys._getframe()
    assert all(frame is here for frame in seen[1::5])


def many_variables(cells: bool) -> FunctionType:
    """A function whose arguments, jumps and cells have numbers past 255."""
    cells = range(20 if cells else 0)
    text = "\n".join(
        [
            "def make(q):",
            f"  def big(x, {', '.join(f'v{i}={i}' for i in range(250))}):",
            *(f"    c{i} = v{i}" for i in cells),
            "    for k in range(2):",
            "      if x > k:",
            *(f"        v{i} = v{i + 1}" for i in range(150)),
            "    try:",
            "      x = x + q",
            "      1 / (x - x)",
            "    except ZeroDivisionError as e:",
            "      x += 1",
            f"    return x, k, (lambda: (x, q, {', '.join(f'c{i}' for i in cells)}))()",
            "  return big",
        ]
    )
    namespace = {}
    exec(compile(text, "big.py", "exec"), namespace)
    return namespace["make"](5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cells", [False, True])
def test_wide_arguments(cells, form):
    function = many_variables(cells)
    assert function.__code__.co_nlocals > 250
    with installed():
        plain = observed(function, function, (0,), {})
        stepper = Stepper(function)
        assert observed(function, stepper.run(10**9), (0,), {}) == plain
        if FORMS[form]:
            stepper.into_blocks(FORMS[form])
        for limit in range(0, stepper.steps, 7):
            assert observed(function, stepper.run(limit), (0,), {}) == plain


def callee(x):
    y = x * 2
    z = 10 // x
    return z + y


def catches(x, log):
    for i in [1, 2]:  # noqa: B007
        try:
            log.append(callee(x))
        except ZeroDivisionError as exc:
            log.append(exc.__traceback__.tb_next.tb_lineno)
    return log, i


def lets_pass(x, log):
    return (
        log,
        callee(x),
    )


def offset_of(code, op, nth=0):
    return [ins.offset for ins in dis.get_instructions(code) if ins.opname == op][nth]


def point_of(function, op, nth, bound, stack, inner=False):
    code = function.__code__
    offset = offset_of(code, op, nth)
    return points.resume_point(code, __name__, code.co_qualname, digest.digest(code), offset, bound, stack, inner)


@pytest.mark.parametrize("form", ["function", "block"])
@pytest.mark.parametrize("x", [0, 3])
def test_inner_frame_under_its_callers_handlers(x, form):
    inside = point_of(callee, "BINARY_OP", 1, ("x", "y"), "vv")
    with installed():
        inner = Continuation(inside, globals())
        state = (x, x * 2, 10, x), inner
        for caller, bound, stack, values in [
            (catches, ("x", "log", "i"), "vnv", lambda log: (x, log, 1, iter([2]), log.append)),
            (lets_pass, ("x", "log"), "v", lambda log: (x, log, log)),
        ]:
            point = point_of(caller, "PRECALL", 0, bound, stack, inner=True)
            name = points.dispatcher_name(stubs.spec_of(caller.__code__, __name__))
            k = Continuation(point, globals())

            def broken(x, log, k=k, values=values):
                return values(log) + state, k

            setattr(builtins, name, broken)
            stub = FunctionType(stubs.stub(caller.__code__, name), globals())
            if form == "block":
                stub.__code__ = blocks.stub(caller.__code__, name, [blocks.Block(k.block, point)])
            plain, resumed = (outcome(lambda f=f: f(x, [])) for f in (caller, stub))
            assert resumed == plain


def test_inner_frames_are_called_by_their_caller():
    """Nothing of ours is between them, and an inner frame that breaks again and again doesn't nest."""
    point = point_of(lets_pass, "PRECALL", 0, ("x", "log"), "v", inner=True)
    called = []

    class Inner:
        @staticmethod
        def made(state, k):
            called.append((sys._getframe(1).f_code.co_qualname, len(state)))
            return 7 if state else vars(builtins)[names.PENDING]((1,), k)

    spec = point.exits[0]
    with installed(**{points.dispatcher_name(spec): lambda *values: (values, None)}):
        k = Continuation(point, globals())
        assert enter((1, [], [], (), Inner), k) == (1, [], [], 7)
        assert called == [("lets_pass", 0), ("lets_pass", 1)]
        Inner.made = None
        kind, (error, text, frames, *_) = outcome(lambda: enter((1, [], [], (), Inner), k))
    assert (kind, error, text) == ("raised", TypeError, "'NoneType' object is not callable")
    assert [frame[0] for frame in frames][1:] == ["lets_pass"]


def test_exits_of_jumps():
    def loop(xs):
        for x in xs:
            print(x)

    point = point_of(loop, "FOR_ITER", 0, ("xs",), "v")
    assert [exit.stack for exit in point.exits] == ["vv", ""]
    assert [exit.params for exit in point.exits] == [("xs",), ("xs",)]
    store = point_of(loop, "STORE_FAST", 0, ("xs",), "vv")
    assert store.exits[0].params == ("xs", "x")
    assert len({points.dispatcher_name(spec) for spec in point.exits + store.exits}) == 3


def test_any_offset_of_a_call_finds_its_start():
    def f(x):
        return max(x, key=len)

    stack = "nvvv"
    found = {point_of(f, op, 0, ("x",), stack).frame.offset for op in ("KW_NAMES", "PRECALL", "CALL")}
    assert found == {offset_of(f.__code__, "KW_NAMES")}


def test_what_cannot_resume():
    def f(x):
        yield x

    with pytest.raises(ValueError, match="YIELD_VALUE"):
        point_of(f, "YIELD_VALUE", 0, ("x",), "v")
    with pytest.raises(ValueError, match="RETURN_VALUE"):
        point_of(callee, "RETURN_VALUE", 0, ("x",), "v")
    with pytest.raises(ValueError, match="malformed"):
        point_of(callee, "BINARY_OP", 0, ("x",), "evve")


def test_point_is_the_same_each_time_and_marshals():
    one, two = (point_of(callee, "BINARY_OP", 1, ("y", "x"), "vv") for _ in range(2))
    assert one.frame == two.frame
    assert one.name == two.name
    assert one.name.isidentifier()
    assert one.name.startswith(names.RESUME)
    code = marshal.loads(one.code)
    assert (code.co_name, code.co_qualname, code.co_filename) == ("callee", "callee", __file__)
    assert marshal.loads(one.origin) == callee.__code__
    assert originals.dispatcher_of(code) is None


def test_retarget():
    point = point_of(callee, "BINARY_OP", 1, ("x", "y"), "vv")
    spec = point.exits[0]
    here = points.dispatcher_name(spec, "7")
    assert here == points.dispatcher_name(spec) + "@7"
    code = marshal.loads(point.code)
    moved = points.retarget(code, {points.dispatcher_name(spec): here})
    assert moved == points.continuation(callee.__code__, point, "7")
    with installed(**{here: lambda x, y, z: ((x, y, z), None)}):
        assert enter((2, 4, 10, 2), Continuation(point, globals(), moved)) == (2, 4, 5)


def test_nothing_of_the_state_is_kept():
    class Thing:
        pass

    def f(thing, other):
        thing.x = other
        del thing
        gc.collect()
        return [r() for r in refs]

    thing, other = Thing(), Thing()
    refs = [weakref.ref(thing), weakref.ref(other)]
    point = point_of(f, "STORE_ATTR", 0, ("thing", "other"), "vv")
    k = Continuation(point, globals())
    with installed():
        given = [(thing, other, other, thing, *f.__closure__)]
        del thing, other
        # Popped, so that only the frame holds the state.
        gone, kept = k.made(given.pop(), k)
    assert gone is None
    assert isinstance(kept, Thing)


def test_free_variables_errors_are_as_in_the_original():
    def make():
        def f(x):
            str(x)
            return missing

        if None:
            missing = 1
        return f

    f = make()
    with installed():
        stepper = Stepper(f)
        expect = observed(f, f, (1,), {})
        assert "free variable" in expect[0]
        assert observed(f, stepper.run(10**9), (1,), {}) == expect
        assert observed(f, stepper.run(3), (1,), {}) == expect
