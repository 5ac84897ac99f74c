"""Names: constants, locals, cells, globals, attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from torch.nn import Module

from .. import model
from ..values import NULL, Cell, Value
from .functions import constant_code
from .table import breaks, opcode

if TYPE_CHECKING:
    from ..decode import Instruction
    from ..frame import Frame
    from ..tracer import Tracer

CLASS_BODY = "A name of a class or module body is used: such bodies aren't traced."

# -- Constants --------------------------------------------------------------------------------------------------------


@opcode("LOAD_CONST")
def LOAD_CONST(t: Any, frame: Frame, ins: Instruction) -> None:
    # One value a frame: a tuple among the constants is the same object at each load.
    if ins.arg not in frame.constants:
        frame.constants[ins.arg] = constant_code(frame, ins) or model.constant(frame.code.co_consts[ins.arg])
    frame.push(frame.constants[ins.arg])


# -- Locals -----------------------------------------------------------------------------------------------------------


def _unbound(t: Tracer, name: str) -> NoReturn:
    t.raise_(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")


def _need_local(t: Any, frame: Frame, name: str) -> None:
    if name not in frame.locals:
        _unbound(t, name)


@opcode("LOAD_FAST")
def LOAD_FAST(t: Any, frame: Frame, ins: Instruction) -> None:
    _need_local(t, frame, ins.argval)
    frame.push(frame.locals[ins.argval])


@opcode("STORE_FAST")
def STORE_FAST(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.let_go(frame.locals.get(ins.argval))
    frame.locals[ins.argval] = frame.pop()


@opcode("DELETE_FAST")
def DELETE_FAST(t: Any, frame: Frame, ins: Instruction) -> None:
    _need_local(t, frame, ins.argval)
    frame.let_go(frame.locals[ins.argval])
    del frame.locals[ins.argval]


# -- Cells ------------------------------------------------------------------------------------------------------------


def _content(t: Any, frame: Frame, name: str) -> Value:
    """The content of the cell `name`; an empty one raises as CPython's `format_exc_unbound` does."""
    content = t.cell_content(frame.cells[name])
    if content is None and name in frame.code.co_cellvars:
        _unbound(t, name)
    if content is None:
        where = "where it is not associated with a value in enclosing scope"
        t.raise_(NameError, f"cannot access free variable '{name}' {where}", name=name)
    return content


@opcode("MAKE_CELL")
def MAKE_CELL(t: Any, frame: Frame, ins: Instruction) -> None:
    cell = frame.cells.setdefault(ins.argval, Cell())
    argument = frame.locals.pop(ins.argval, None)
    if argument is not None and t.cell_content(cell) is None:
        t.set_cell(cell, argument)


@opcode("LOAD_CLOSURE")
def LOAD_CLOSURE(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(frame.cells[ins.argval])


@opcode("LOAD_DEREF")
def LOAD_DEREF(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(t.lasting(_content(t, frame, ins.argval)))


@opcode("STORE_DEREF")
def STORE_DEREF(t: Any, frame: Frame, ins: Instruction) -> None:
    t.set_cell(frame.cells[ins.argval], frame.pop())


@opcode("DELETE_DEREF")
def DELETE_DEREF(t: Any, frame: Frame, ins: Instruction) -> None:
    _content(t, frame, ins.argval)
    t.set_cell(frame.cells[ins.argval], None)


# -- Globals ----------------------------------------------------------------------------------------------------------


@opcode("LOAD_GLOBAL")
def LOAD_GLOBAL(t: Any, frame: Frame, ins: Instruction) -> None:
    value = t.load_global(frame.globals, ins.argval)
    if ins.arg & 1:
        frame.stack.append(NULL)
    frame.push(t.lasting(value))


@opcode("STORE_GLOBAL")
def STORE_GLOBAL(t: Any, frame: Frame, ins: Instruction) -> None:
    t.store_global(frame.globals, ins.argval, frame.pop())


@opcode("DELETE_GLOBAL")
def DELETE_GLOBAL(t: Any, frame: Frame, ins: Instruction) -> None:
    t.store_global(frame.globals, ins.argval, None)


for _name in ("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_CLASSDEREF", "SETUP_ANNOTATIONS"):
    breaks(_name, CLASS_BODY)

# -- Attributes -------------------------------------------------------------------------------------------------------


@opcode("LOAD_ATTR")
def LOAD_ATTR(t: Any, frame: Frame, ins: Instruction) -> None:
    owner = frame.pop()
    value = model.get_attr(t, owner, ins.argval)
    frame.push(t.lasting(value) if t.differentiating and not issubclass(owner.cls, Module) else value)


@opcode("LOAD_METHOD")
def LOAD_METHOD(t: Any, frame: Frame, ins: Instruction) -> None:
    # Always the form "NULL, bound": a break then finds one layout of the stack.
    method = model.get_attr(t, frame.pop(), ins.argval)
    frame.stack.append(NULL)
    frame.push(method)


@opcode("STORE_ATTR")
def STORE_ATTR(t: Any, frame: Frame, ins: Instruction) -> None:
    value, owner = frame.popn(2)
    model.set_attr(t, owner, ins.argval, value)


@opcode("DELETE_ATTR")
def DELETE_ATTR(t: Any, frame: Frame, ins: Instruction) -> None:
    model.del_attr(t, frame.pop(), ins.argval)


@opcode("LOAD_ASSERTION_ERROR")
def LOAD_ASSERTION_ERROR(t: Any, frame: Frame, ins: Instruction) -> None:
    frame.push(model.class_value(t, AssertionError))
