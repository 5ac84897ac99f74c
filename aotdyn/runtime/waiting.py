"""What the hook's policy knows of one dispatcher: calls that nothing served, and what earlier processes left to do.

`runtime.thrift` decides by it. It stands apart from `runtime.entry`, which
finds and makes what serves calls, and asks here first.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotdyn.runtime import weighing
    from aotdyn.runtime.thrift import Account
    from aotdyn.runtime.variant import Variant


class Waiting:
    """How a function waits for its turn; where there is no thrift (`account` is None), it doesn't.

    Args:
        extent: that of the compilation: `thrifty` where calls without tensors are left alone, `sparing` names terms.
    """

    def __init__(self, extent: Any) -> None:
        self.extent = extent
        self.account: Account | None = None
        self.weight: weighing.Weight | None = None
        self.scale: weighing.Scale | None = None
        self.meets: Callable[..., bool] | None = None
        "under the hook: tells whether a call meets tensors"
        self.quiet = sys.maxsize
        "calls without tensors after which it isn't asked at each whether it has some"
        self.ripe = False
        "it has waited for its turn in an earlier process"
        self.needs = 0.0
        "seconds that tracing has taken without an end"
        self.postponed = 0
        "whether an earlier process has put the function off (1), or several have (2)"
        self.debts: list[Variant] = []
        "its verdicts, as they are stored"
        self.silent: bool | None = None
        "whether its code names no operation on tensors, or a trace was poor; None while nobody asked"
        self.callers_ran: dict[str, int] = {}
        "how often callers that it has waited for were called themselves, by name"
        self.unserved = 0
        "calls under thrift since a variant was last made or bound, none of which was served"
        self._ran = 0
        "all such calls, but for those of a pause that isn't over"
        self.left = 0
        "calls with tensors that nothing served, by thrift or not"
        self.skip = 0
        "how many of the next calls don't ask"
        self._pause: tuple[int, Any] = (0, iter(()))
        "calls that a dispatcher which only counts leaves to Python, and what tells how many of them are to come"
        self.misfit = 0
        "calls that no bound variant fitted"
        self.idle = self.idled = 0
        "how many of the next calls are taken for such without tensors; calls in a row that were"
        if getattr(extent, "thrifty", False):
            from aotdyn.runtime import worth

            self.meets = worth.meets

    def wait_anew(self) -> None:
        """Forget all but the account."""
        self.left = self.unserved = self._ran = self.skip = 0
        self._pause = 0, iter(())
        self.misfit = 0
        self.needs, self.postponed, self.debts = 0.0, 0, []
        self.weight = self.scale = None

    def skipped(self) -> None:
        """A call that the policy leaves to Python without a look."""
        self.skip -= 1
        self.unserved += 1
        self._ran += 1
        self.left += 1

    def pause(self: Any, calls: int) -> None:
        """Leave so many calls to Python without a look: where no variant is bound, at as little cost as can be."""
        self._count_pause()
        self.skip = calls
        if self.lines or self.account is None:
            return
        from aotdyn.runtime import retired

        resting, left = retired.rest(calls, self._resume)
        self._pause = calls, left
        self._publish(resting)

    def _resume(self: Any, *args: Any) -> Any:
        """The answer to the first call behind a pause."""
        self._count_pause()
        self.skip = 0
        self.install()
        return self.asked(sys._getframe(2).f_globals, args) if self.direct else self.miss(*args)

    def _count_pause(self) -> None:
        gone = self.paused()
        self._pause = 0, iter(())
        self.unserved += gone
        self._ran += gone
        self.left += gone

    def paused(self) -> int:
        """How many calls a pause that isn't counted yet has left to Python."""
        calls, left = self._pause
        return calls - operator.length_hint(left)

    @property
    def ran(self) -> int:
        """How many calls under thrift nothing has served."""
        return self._ran + self.paused()

    def misfits(self: Any) -> bool:
        """Note a call that no variant fits; whether such are so many that the function is left to Python."""
        self.misfit += 1
        if self.misfit & 0xFF:
            return False
        from aotdyn.runtime import thrift

        return thrift.rarely_fits(self)

    def met_none(self) -> None:
        """After many calls in a row without tensors it is asked ever more rarely whether one has some."""
        self.idled += 1
        beyond = self.idled - self.quiet
        if beyond > 0:
            from aotdyn.runtime import thrift

            self.idle = thrift.unasked(beyond)

    def heed(self: Any, verdict: Variant) -> None:
        """A stored verdict: the policy has left the function to Python before, or put it off.

        Where there is no thrift, what was put off is made now.
        """
        if verdict.seconds or verdict.postponed:
            self.debts.append(verdict)
            if self.account is None:
                self.pay()
                return
            from aotdyn.runtime import thrift

            self.needs = max(self.needs, verdict.seconds)
            self.postponed = max(self.postponed, verdict.postponed or 2)
            self.ripe = self.postponed == 1 and thrift.inherit(self)
        elif self.account is not None and verdict.poor:
            self.account.poor = max(self.account.poor, verdict.poor)
            self.silent = True
        elif self.account is not None:
            from aotdyn.runtime import weighing

            if not weighing.holds(self, verdict):
                return
            if verdict.pays:
                self.account.pays = True
            else:
                self.account.leave(verdict.leave)

    def clear_debts(self: Any) -> None:
        """Take back what earlier processes have stored of putting the function off."""
        from aotdyn.runtime import cold

        for verdict in self.debts:
            cold.prune(self, verdict)
        self.debts = []

    def pay(self) -> None:
        """What an earlier process has put off is made: later ones needn't know of it any more."""
        self.clear_debts()
        self.needs, self.postponed = 0.0, 0
