"""The table of opcodes is complete, code is decoded as `dis` reads it, and liveness keeps what is still read."""

from __future__ import annotations

import dis

import pytest

from aotdyn.trace.decode import decode
from aotdyn.trace.liveness import liveness
from aotdyn.trace.opcodes import BREAKS, OPCODES

FOLDED = {"CACHE", "EXTENDED_ARG"}  # the decoder takes them away
PSEUDO = {name for name in dis.opmap if dis.opmap[name] > 255}


@pytest.mark.parametrize("name", sorted(set(dis.opmap) - FOLDED - PSEUDO))
def test_every_opcode_runs_or_breaks(name):
    assert name in OPCODES


def test_nothing_else_is_in_the_table():
    assert set(OPCODES) <= set(dis.opmap)


def test_every_break_says_why():
    assert all(reason.endswith((".", ")")) and len(reason) > 20 for reason in BREAKS.values())


def long_jumps(x):
    total = 0
    for i in range(x):
        if i:
            total += i
        try:
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
            total = (total + 1) * 2 - (total + i) * (i - 1) + (total - 3) * (i + 4) - (total - i) // (i + 1)
        except ZeroDivisionError:
            continue
    return total


def test_prefixes_are_folded():
    decoded = decode(long_jumps.__code__)
    raw = list(dis.get_instructions(long_jumps.__code__))
    assert any(ins.opname == "EXTENDED_ARG" for ins in raw)
    assert [ins.opname for ins in decoded.instructions] == [i.opname for i in raw if i.opname != "EXTENDED_ARG"]
    assert all(decoded.index[ins.offset] == i for i, ins in enumerate(decoded.instructions))


def test_jumps_name_their_target():
    decoded = decode(long_jumps.__code__)
    jumps = [ins for ins in decoded.instructions if ins.target >= 0]
    assert jumps
    assert all(decoded.index[ins.argval] == ins.target for ins in jumps)


def test_handlers_come_from_the_exception_table():
    decoded = decode(long_jumps.__code__)
    covered = [i for i, handler in enumerate(decoded.handlers) if handler]
    assert decoded.instructions[decoded.handlers[covered[0]].target].opname == "PUSH_EXC_INFO"


def live_at(function, opname, number=0):
    """What is live before the `number`th instruction `opname`."""
    decoded = decode(function.__code__)
    at = [i for i, ins in enumerate(decoded.instructions) if ins.opname == opname]
    return liveness(function.__code__)[at[number]]


def straight(a, b):
    c = a + b
    return print(c)


def test_dead_locals_are_pruned():
    assert live_at(straight, "CALL") == set()
    assert live_at(straight, "BINARY_OP") == set()
    assert live_at(straight, "LOAD_FAST") == {"a", "b"}


def looping(n, x):
    y = 0
    while n:
        y = x + y
        n = n - 1
    return y


def test_a_loop_keeps_what_its_next_turn_reads():
    assert live_at(looping, "BINARY_OP") == {"n", "x"}  # y is on the stack, and stored next


def caught(f, x):
    try:
        x = f()
    except ValueError:
        return x
    return 0


def test_a_handler_keeps_what_it_reads():
    assert "x" in live_at(caught, "CALL")


def closing(x):
    def inner():
        return x

    return print(inner)


def test_cells_live_while_they_are_touched():
    assert "x" in live_at(closing, "LOAD_CLOSURE")
    assert live_at(closing, "CALL") == set()


class Child:
    def method(self, x):
        print(x)
        return super().method


def test_super_keeps_self_and_class():
    assert live_at(Child.method, "CALL") >= {"self", "__class__"}


def looking(a, b):
    print(a)
    return locals()


def test_locals_keeps_everything():
    assert live_at(looking, "CALL") == {"a", "b"}
