"""Generators: frames that stop at a yield and go on later."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

from aotdyn.guards import naming
from aotdyn.guards.pure import PURE
from aotdyn.guards.sources import Attr, Known, Pure
from aotdyn.rewrite.originals import original

from .. import model
from ..control import Raised, graph_break
from ..decode import decode
from ..handlers import handles
from ..values import Cell, Const, Generator, Iterator, Object, Opaque, Sequence, Value, force
from .exceptions import Chained, _set, as_exception, new_exception
from .table import opcode

if TYPE_CHECKING:
    from aotdyn.guards.sources import Source

    from ..decode import Instruction
    from ..frame import Frame

GENERATOR_LIKE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

# -- Opcodes ----------------------------------------------------------------------------------------------------------


@opcode("RETURN_GENERATOR")
def RETURN_GENERATOR(t: Any, frame: Frame, ins: Instruction) -> None:
    if frame.code.co_flags & GENERATOR_LIKE:
        graph_break("A coroutine is made.", "Move the computation into a plain function.")
    frame.by_call = False
    frame.generator = Generator(frame)
    t.generators.append(frame.generator)
    frame.generator.born = t.break_position()  # the operation that makes it: this frame resumes nowhere
    frame.outcome = ("return", frame.generator)


@opcode("YIELD_VALUE")
def YIELD_VALUE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.outcome = ("yield", frame.pop())


@opcode("GET_YIELD_FROM_ITER")
def GET_YIELD_FROM_ITER(t: Any, frame: Frame, ins: Instruction) -> None:
    value = force(frame.pop())
    frame.push(value if isinstance(value, Generator) else model.iterate(t, value))


@opcode("SEND")
def SEND(t: Any, frame: Frame, ins: Instruction) -> None:
    sent = frame.pop()
    kind, value = _send(t, frame.stack[-1], sent)
    if kind == "return":
        frame.pop()
        frame.jump(ins)
    frame.push(value)


# -- From outside -----------------------------------------------------------------------------------------------------


def load_generator(t: Any, obj: types.GeneratorType, source: Source) -> Value:
    """A generator from outside: one that hasn't started is run by the trace, from its code and variables.

    Its variables are told by its frame, cells are not: code that writes to
    one, or makes functions, is left to Python, as is a generator on its way.
    """
    t.guard("TYPE", source, types.GeneratorType)
    facts = PURE["generator.facts"].function(obj)
    t.guard("CONST", Pure("generator.facts", source), facts)
    frame = obj.gi_frame
    if not facts or frame is None or naming.module_name(frame.f_globals) is None or not _runs_alone(obj):
        return Opaque(obj, source)
    globals = t.namespace(frame.f_globals)
    t.guard("SAME", Attr(Attr(source, "gi_frame"), "f_globals"), globals.source)
    code = original(obj.gi_code)
    values = {
        name: t.wrap(value, Pure("generator.local", source, Known(name))) for name, value in frame.f_locals.items()
    }
    cells = {name: Cell(values.pop(name, None)) for name in code.co_freevars}
    from ..frame import Frame

    made = Frame(t, code, globals, values, cells, caller=t.frame)
    made.index = next(i for i, ins in enumerate(made.decoded.instructions) if ins.opname == "RETURN_GENERATOR")
    made.next = made.index + 1
    made.generator = Generator(made, source, obj)
    t.generators.append(made.generator)
    return made.generator


def _runs_alone(obj: types.GeneratorType) -> bool:
    """Whether a generator's code neither shares variables that may change nor holds other code."""
    code = original(obj.gi_code)
    writes = any(ins.opname in ("STORE_DEREF", "DELETE_DEREF") for ins in decode(code).instructions)
    return not code.co_cellvars and not writes and not any(isinstance(each, types.CodeType) for each in code.co_consts)


# -- Going on ---------------------------------------------------------------------------------------------------------


def resume_generator(
    t: Any, gen: Generator, sent: Value | None = None, thrown: Value | None = None
) -> tuple[str, Value]:
    """Go on with `gen` until it yields or returns: ('yield' or 'return', value).

    `sent` is the value of its `yield`, `thrown` an exception to raise there.
    Raises `Raised` with what the generator raises; never StopIteration (PEP 479).
    """
    if gen.running:
        t.raise_(ValueError, "generator already executing")
    if not gen.started and sent is not None and not _is_none(sent):
        t.raise_(TypeError, "can't send non-None value to a just-started generator")
    if gen.closed:
        if thrown is not None:
            raise Raised(thrown)
        return "return", Const(None)
    if gen.source is not None and not gen.started:
        gen.born = t.break_position()  # before it Python may go on with it
        if gen.frame.cells and any(isinstance(each, Cell) for each in t.changed):
            graph_break("A generator from outside may see a variable that has changed.")
    t.mutated(gen)
    return _run(t, gen, sent or Const(None), thrown)


def _run(t: Any, gen: Generator, sent: Value, thrown: Value | None) -> tuple[str, Value]:
    """Run the frame of `gen`, under its own exception state."""
    frame = gen.frame
    frame.caller, frame.outer_handled, own = t.frame, t.handled, frame.own_handled
    gen.running, t.handled = True, own
    try:
        if thrown is not None:
            _throw(t, gen, thrown)
        else:
            frame.index = frame.next
            frame.stack.append(sent)
        gen.started = True
        kind, value = frame.advance()
    except Raised as raised:
        gen.closed, gen.running, gen.started = True, False, True
        t.handled = frame.outer_handled
        raise _no_stop(t, raised) from None
    frame.own_handled, t.handled = t.handled, frame.outer_handled
    gen.running, gen.closed = False, kind == "return"
    return kind, value


def _no_stop(t: Any, raised: Raised) -> Raised:
    """A StopIteration that would leave a generator becomes a RuntimeError (PEP 479)."""
    if not issubclass(model.type_of(t, raised.value), StopIteration):
        return raised
    error = new_exception(t, RuntimeError, Const("generator raised StopIteration"))
    _set(t, error, "__cause__", raised.value)
    _set(t, error, "__context__", raised.value)
    _set(t, error, "__suppress_context__", Const(True))
    return Chained(error)


def _throw(t: Any, gen: Generator, thrown: Value) -> None:
    """Raise `thrown` where `gen` stands, so that its frame goes on in its handler; it leaves where there's none."""
    frame = gen.frame
    if not gen.started:
        raise Raised(thrown)
    t.enter(frame)
    try:
        frame.unwind(Raised(thrown))
    finally:
        t.leave(frame)
    frame.index = frame.next


# -- What a generator delegates to ------------------------------------------------------------------------------------


def _delegate(gen: Generator) -> Value | None:
    """The iterator that `gen` waits for in `yield from` (`_PyGen_yf`)."""
    frame = gen.frame
    after = frame.decoded.instructions[frame.next] if gen.started and not gen.closed else None
    if after is None or after.opname != "RESUME" or after.arg < 2:
        return None
    return force(frame.stack[-1])


def _is_none(value: Value) -> bool:
    value = force(value)
    return isinstance(value, Const) and value.value is None


def _stop_value(t: Any, raised: Raised) -> Value:
    """The `value` of a StopIteration; raises `raised` again if it is another exception."""
    if not issubclass(model.type_of(t, raised.value), StopIteration):
        raise raised
    return model.get_attr(t, raised.value, "value")


def _send(t: Any, receiver: Value, sent: Value) -> tuple[str, Value]:
    """One step of `yield from`."""
    receiver = force(receiver)
    if isinstance(receiver, Generator):
        return resume_generator(t, receiver, sent)
    if isinstance(receiver, Iterator) and _is_none(sent):
        item = model.advance(t, receiver)
        return ("return", Const(None)) if item is None else ("yield", item)
    try:
        if _is_none(sent):
            return "yield", model.call_method(t, receiver, "__next__")
        return "yield", model.call_method(t, receiver, "send", sent)
    except Raised as raised:
        return "return", _stop_value(t, raised)


# -- The methods of a generator ---------------------------------------------------------------------------------------


def _yielded(t: Any, kind: str, value: Value) -> Value:
    """What a method answers: the yielded value, or StopIteration with the returned one."""
    if kind == "yield":
        return value
    raise Raised(new_exception(t, StopIteration, *(() if _is_none(value) else (value,))))


def _generator(value: Value) -> Generator:
    known = force(value)
    if not isinstance(known, Generator):
        graph_break("A method is called on a generator that was made outside of the trace.")
    return known


@handles(types.GeneratorType.__iter__)
def generator_iter(t: Any, gen: Value) -> Value:
    return gen


@handles(types.GeneratorType.__next__)
def generator_next(t: Any, gen: Value) -> Value:
    return generator_send(t, gen, Const(None))


@handles(types.GeneratorType.send)
def generator_send(t: Any, gen: Value, value: Value) -> Value:
    gen = _generator(gen)
    return _yielded(t, *resume_generator(t, gen, value))


@handles(types.GeneratorType.throw)
def generator_throw(t: Any, gen: Value, value: Value, arg: Value | None = None, tb: Value | None = None) -> Value:
    """`gen.throw(exception)` or `gen.throw(cls, arg, traceback)` (`_gen_throw` in genobject.c)."""
    return _yielded(t, *_thrown_into(t, _generator(gen), _normalized(t, value, arg)))


def _normalized(t: Any, value: Value, arg: Value | None) -> Value:
    """The exception that the arguments of `throw` mean."""
    if arg is None or _is_none(arg):
        return as_exception(t, value, _not_thrown(t, value))
    known = force(arg)
    if isinstance(known, Object) and issubclass(known.cls, BaseException):
        return known
    args = known.items if isinstance(known, Sequence) and known.cls is tuple else [known]
    return as_exception(t, model.call(t, value, args, {}))


def _not_thrown(t: Any, value: Value) -> str:
    name = model.type_of(t, value).__name__
    return f"exceptions must be classes or instances deriving from BaseException, not {name}"


def _thrown_into(t: Any, gen: Generator, exception: Value) -> tuple[str, Value]:
    """Raise in `gen`, or in what it delegates to."""
    inner = _delegate(gen)
    if inner is None or gen.running:
        return resume_generator(t, gen, thrown=exception)
    gen.running = True
    try:
        outcome = _throw_inner(t, inner, exception)
    except Raised as raised:
        gen.running = False
        return resume_generator(t, gen, thrown=raised.value)
    gen.running = False
    if outcome[0] == "yield":
        return outcome
    return _leave_delegate(t, gen, outcome[1])


def _throw_inner(t: Any, inner: Value, exception: Value) -> tuple[str, Value]:
    """Throw into the iterator of a `yield from`."""
    if issubclass(model.type_of(t, exception), GeneratorExit):
        _close_inner(t, inner)
        raise Raised(exception)
    if isinstance(inner, Generator):
        return _thrown_into(t, inner, exception)
    if not model.has_attr(t, inner, "throw"):
        raise Raised(exception)
    try:
        return "yield", model.call_method(t, inner, "throw", exception)
    except Raised as raised:
        return "return", _stop_value(t, raised)


def _leave_delegate(t: Any, gen: Generator, value: Value) -> tuple[str, Value]:
    """The iterator of a `yield from` is exhausted: go on behind its SEND, with its value."""
    frame = gen.frame
    send = frame.decoded.instructions[frame.index - 1]
    assert send.opname == "SEND"
    frame.stack.pop()
    frame.next = send.target
    return resume_generator(t, gen, value)


def _close_inner(t: Any, inner: Value) -> None:
    if isinstance(inner, Generator):
        generator_close(t, inner)
    elif model.has_attr(t, inner, "close"):
        model.call_method(t, inner, "close")


@handles(types.GeneratorType.close)
def generator_close(t: Any, gen: Value) -> Value:
    """`gen.close()`: raise GeneratorExit where it stands, which must leave it."""
    gen = _generator(gen)
    if not gen.started and not gen.closed:
        t.mutated(gen)
        gen.closed = True
    if gen.closed:
        return Const(None)
    try:
        kind, _ = _thrown_into(t, gen, new_exception(t, GeneratorExit))
    except Raised as raised:
        if not issubclass(model.type_of(t, raised.value), GeneratorExit):
            raise
        return Const(None)
    if kind == "yield":
        t.raise_(RuntimeError, "generator ignored GeneratorExit")
    return Const(None)
