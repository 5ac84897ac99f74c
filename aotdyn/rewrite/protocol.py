"""The instructions of the dispatch protocol (docs/design/contracts.md), for stubs and continuations alike.

Both ask a dispatcher with a stack of the user's below, which is empty in a
stub. Whatever leaves the frame leaves that stack clean: exception states are
restored, values released.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotdyn.rewrite import names
from aotdyn.rewrite.assembler import Assembler, Handler, Label
from aotdyn.rewrite.dialect import version
from aotdyn.rewrite.switchboard import Seat, seat

Load = tuple[str, int]
"an instruction that pushes one value"


class Asking:
    """Asks dispatchers in the code that `asm` makes, over a stack of `slots`.

    `hand_over` names the builtin called with state and continuation where the
    dispatcher breaks; or it is a place further on, jumped to with continuation
    and state (on top) alone on the stack. `scratch` is a local to drop NULLs
    into, needed where `slots` has any.
    """

    def __init__(self, asm: Assembler, slots: str, hand_over: str | Label, scratch: int = -1) -> None:
        self.asm, self.slots, self.hand_over, self.scratch = asm, slots, hand_over, scratch

    def ask(self, dispatcher: str | Seat, values: Sequence[Load], cells: Sequence[Load]) -> None:
        """Call `dispatcher`; return its value or hand over; falls through, the stack as before, if it answers None.

        It is handed `values`, those of the stack, then `cells`.
        """
        asm, depth = self.asm, len(self.slots)
        missing, failed, none, over = (Label() for _ in range(4))
        with asm.under(Handler(missing, depth)):
            find(asm, dispatcher)
        with asm.under(Handler(failed, depth)):
            asm.ops(*values)
            count = len(values) + self._stack_values(len(values))
            asm.ops(*cells)
            count += len(cells)
            asm.ops(*version.call(count))
        asm.need(depth + count + 8)
        asm.op("COPY", 1)
        asm.op("POP_JUMP_FORWARD_IF_NONE", none)
        asm.ops(("UNPACK_SEQUENCE", 2), ("COPY", 2))
        asm.op("POP_JUMP_FORWARD_IF_NOT_NONE", over)
        asm.ops(("SWAP", 2), ("POP_TOP", 0))
        self._leave()
        asm.op("RETURN_VALUE")

        asm.put(over)  # continuation, state
        if isinstance(self.hand_over, Label):
            self._leave(2)
            asm.op("JUMP_FORWARD", self.hand_over)
        else:
            with asm.under(Handler(failed, depth)):
                # The state has them now: a local that the user deletes in what follows must not live on here.
                asm.ops(*(("DELETE_FAST", index) for op, index in values if op == "LOAD_FAST"))
                call_with_state(asm, self.hand_over)
            self._leave()
            asm.op("RETURN_VALUE")

        asm.put(failed)
        self.fail()

        asm.put(missing)  # NameError
        asm.ops(("PUSH_EXC_INFO", 0), ("SWAP", 2), ("POP_EXCEPT", 0))
        asm.put(none)
        asm.op("POP_TOP")

    def fail(self) -> None:
        """Leave the frame with the exception on top of the stack, our own frames dropped from its traceback.

        What the repair raises (the stack is at its end, a signal's handler raised) leaves in its place: the exception
        isn't handled any more then, either.
        """
        asm, handled = self.asm, Label()
        asm.op("PUSH_EXC_INFO")
        with asm.under(Handler(handled, len(self.slots) + 1)):
            fix_traceback(asm)
        asm.put(handled)
        asm.ops(("SWAP", 2), ("POP_EXCEPT", 0))
        self._leave()
        asm.op("RERAISE", 0)  # reads __traceback__ again, and doesn't log this frame twice

    def _stack_values(self, above: int) -> int:
        """Push copies of the values of the stack, which lies under NULL, function and `above` arguments."""
        asm = self.asm
        count = 0
        states = [i for i, slot in enumerate(self.slots) if slot in "eh"]
        for i, slot in enumerate(self.slots):
            height = len(self.slots) - i + 2 + above + count
            if slot == "v":
                asm.op("COPY", height)
            elif slot == "h" and i != states[-1]:
                # What one handler handled is what the next inner one saved.
                asm.op("COPY", height - (next(s for s in states if s > i) - i))
            elif slot == "h":
                # Push the current exception state, and restore it from a copy.
                asm.op("LOAD_CONST", asm.none())
                asm.ops(("PUSH_EXC_INFO", 0), ("POP_TOP", 0), ("COPY", 1), ("POP_EXCEPT", 0))
            else:
                continue
            count += 1
        return count

    def _leave(self, kept: int = 1) -> None:
        """Clear the stack under the one value on its top, or under two."""
        for slot in reversed(self.slots):
            self.asm.op("SWAP", kept + 1)
            if slot == "n":
                # No instruction pops NULL but this one, which leaves the variable unbound.
                self.asm.op("STORE_FAST", self.scratch)
            else:
                self.asm.op("POP_TOP" if slot == "v" else "POP_EXCEPT")
        if kept == 2 and len(self.slots) % 2:
            self.asm.op("SWAP", 2)


def call_with_state(asm: Assembler, function: str) -> None:
    """Call a builtin with state and continuation, which lie on the stack as continuation, state."""
    asm.ops(version.global_function(asm.name(function)))
    # Moved, not copied: nothing here holds the state while it is worked on.
    asm.ops(("SWAP", 3), ("SWAP", 2), ("SWAP", 4))
    asm.ops(*version.call(2))


def find(asm: Assembler, dispatcher: str | Seat) -> None:
    """Push NULL and the dispatcher; a LookupError of whatever kind says that it isn't there."""
    place = seat(dispatcher) if isinstance(dispatcher, str) else dispatcher
    if place is None:
        asm.ops(version.global_function(asm.name(str(dispatcher))))
        return
    asm.ops(version.global_function(asm.name(place.board)), ("LOAD_ATTR", asm.name("ask")))
    asm.consts.append(place.number)
    asm.ops(("LOAD_CONST", len(asm.consts) - 1), ("BINARY_SUBSCR", 0))


def fix_traceback(asm: Assembler) -> None:
    """Call fix with the exception on top of the stack; written for size, since every stub has it."""
    asm.ops(version.global_function(asm.name(names.FIX)), ("COPY", 3))
    asm.ops(("BUILD_TUPLE", 1), ("CALL_FUNCTION_EX", 0), ("POP_TOP", 0))


def run_inner(asm: Assembler) -> None:
    """Run an inner frame, whose continuation and state are on top of the stack, until it returns; leaves its value.

    Its frames are called from here, as they are in plain Python: whoever looks
    at the stack finds nothing of ours between.
    """
    again, done = Label(), Label()
    asm.put(again)
    asm.ops(("SWAP", 2), ("COPY", 1), ("LOAD_ATTR", asm.name("made")), ("PUSH_NULL", 0))
    # state, continuation, function, NULL: moved, not copied, to NULL, function, state, continuation
    asm.ops(("SWAP", 4), ("SWAP", 3), ("SWAP", 2), ("SWAP", 3), ("SWAP", 2))
    asm.ops(*version.call(2))
    asm.ops(version.global_function(asm.name(names.TYPE)), ("COPY", 3), *version.call(1))
    asm.ops(version.global_value(asm.name(names.PENDING)), ("IS_OP", 0))
    asm.op("POP_JUMP_FORWARD_IF_FALSE", done)
    asm.op("UNPACK_SEQUENCE", 2)
    asm.op("JUMP_BACKWARD", again)
    asm.put(done)
