"""The `eager` form of a graph: one Python function that makes the same calls, readable and without fx.

Operators print as operators, other targets are globals under positional names
(`f0_relu`), values are `v0`, `v1`, inputs `a0`, `a1`. A value is deleted with
its last use. Each statement carries the line of the user's outermost frame, and
the code the user's file and function, so that a traceback names the user's line.
Its column says which step it is, counted from 1: `LINES`, among the globals,
tells all the lines of the user's that a step stands for.
"""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import math
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from torch import fx

from aotdyn.graph import GENERATED, LINES, native
from aotdyn.graph import program as programs
from aotdyn.graph.effects import GRAD_SETTERS, MODE_SETTERS, OPENERS, GradMode, Modes
from aotdyn.graph.program import Frame, Locate, Program, Ref, Step, locate

BINARY: dict[str, type[ast.operator]] = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "truediv": ast.Div,
    "floordiv": ast.FloorDiv,
    "mod": ast.Mod,
    "pow": ast.Pow,
    "matmul": ast.MatMult,
    "lshift": ast.LShift,
    "rshift": ast.RShift,
    "and_": ast.BitAnd,
    "or_": ast.BitOr,
    "xor": ast.BitXor,
}
COMPARE: dict[str, type[ast.cmpop]] = {
    "lt": ast.Lt,
    "le": ast.LtE,
    "eq": ast.Eq,
    "ne": ast.NotEq,
    "gt": ast.Gt,
    "ge": ast.GtE,
}
LOAD, STORE, DELETE = ast.Load(), ast.Store(), ast.Del()

Node = TypeVar("Node")

UNARY: dict[str, type[ast.unaryop]] = {"neg": ast.USub, "pos": ast.UAdd, "invert": ast.Invert}


class Generated(msgspec.Struct, frozen=True):
    """A function as a syntax tree, with its globals and the user's file."""

    tree: ast.FunctionDef
    globals: dict[str, Any]
    file: str
    name: str
    "what tracebacks call it: the user's own function, which need not be an identifier"

    def source(self) -> str:
        """The function as text."""
        return ast.unparse(self.tree)

    def code(self) -> types.CodeType:
        """The function's code object: marshals, and is the same for every process."""
        module = compile(ast.Module([self.tree], []), self.file, "exec", dont_inherit=True)
        code = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
        return code.replace(co_name=self.name, co_qualname=self.name)

    def function(self, code: types.CodeType | None = None) -> Callable[..., tuple[Any, ...]]:
        """The function itself, from code kept from an earlier process if given."""
        return types.FunctionType(code or self.code(), self.globals)


def generate(graph: fx.GraphModule | Program, locate: Locate = locate, name: str | None = None) -> Generated:
    """The function of a graph: positional inputs in order, a tuple out.

    `name` is the function's name in tracebacks, by default that of the user's
    outermost function.
    """
    program = graph if isinstance(graph, Program) else programs.of_module(graph)
    return _Writer(program, locate).write(name)


def to_function(graph: fx.GraphModule | Program, locate: Locate = locate) -> Callable[..., tuple[Any, ...]]:
    """`generate` and `function` in one step."""
    return generate(graph, locate).function()


class _Writer:
    """One pass over a program that makes statements and fills the globals."""

    def __init__(self, program: Program, locate: Locate) -> None:
        self.program = program
        self.locate = locate
        self.globals: dict[str, Any] = {"__name__": GENERATED, "__builtins__": builtins}
        self.names: dict[int, str] = {}
        self.first = len(program.inputs)
        self.last = programs.last_uses(program)
        self.file, self.start, self.function = self._origin()
        self.line, self.column = self.start, 0
        self.globals[LINES] = functools.partial(_lines, tuple(step.stack for step in program.steps), locate)

    def write(self, name: str | None) -> Generated:
        program = self.program
        targets = [step.target for step in program.steps]
        modes = [target for target in targets if not isinstance(target, str) and _in(target, MODE_SETTERS)]
        opened = [
            self.first + i for i, target in enumerate(targets) if not isinstance(target, str) and _in(target, OPENERS)
        ]
        body: list[ast.stmt] = []
        for index, step in enumerate(program.steps):
            self._move(step)
            self.column = index + 1
            body += self._statements(index, step, opened)
        self.column = 0
        body.append(self._new(ast.Return, self._expression(program.outputs[0] if program.bare else program.outputs)))
        if modes:
            kept = GradMode if all(_in(target, GRAD_SETTERS) for target in modes) else Modes
            body = self._restoring(body, opened, kept)
        self.line = self.start
        arguments = [self._new(ast.arg, f"a{number}") for number in range(self.first)]
        tree = self._new(
            ast.FunctionDef,
            name or _identifier(self.function),
            ast.arguments([], arguments, None, [], [], None, []),
            body,
            [],
            None,
            None,
        )
        return Generated(tree, self.globals, self.file, name or self.function.rpartition(".")[2])

    def _origin(self) -> tuple[str, int, str]:
        for step in self.program.steps:
            if step.stack:
                return self.locate(step.stack[0])
        return "<aotdyn graph>", 1, "graph"

    def _move(self, step: Step) -> None:
        if step.stack:
            file, line, _ = self.locate(step.stack[0])
            if file == self.file:
                self.line = line

    def _new(self, kind: Callable[..., Node], *fields: Any) -> Node:
        """A syntax node at the user's current line, in the column of the step."""
        line, column = self.line, self.column
        return kind(*fields, lineno=line, end_lineno=line, col_offset=column, end_col_offset=column)

    def _statements(self, index: int, step: Step, opened: Sequence[int]) -> list[ast.stmt]:
        number = self.first + index
        dead = [value for value in dict.fromkeys(programs.refs((step.args, step.kwargs))) if self.last[value] == index]
        if _name(step.target) == "setitem" and len(step.args) == 3 and not step.kwargs and number not in self.last:
            receiver, item, value = step.args
            target = self._new(ast.Subscript, self._expression(receiver), self._index(item), STORE)
            made: list[ast.stmt] = [self._new(ast.Assign, [target], self._expression(value))]
        else:
            call = self._call(step)
            made = [
                self._new(ast.Assign, [self._store(number)], call) if number in self.last else self._new(ast.Expr, call)
            ]
        gone = [value for value in dead if value not in opened]
        if gone:
            made.append(self._new(ast.Delete, [self._new(ast.Name, self._value(value), DELETE) for value in gone]))
        made += [
            self._new(ast.Assign, [self._store(value)], self._new(ast.Constant, None))
            for value in dead
            if value in opened
        ]
        return made

    def _restoring(self, body: list[ast.stmt], opened: Sequence[int], modes: type) -> list[ast.stmt]:
        """`body`, with the modes put back where it raises: what a `with` of the user's would do."""
        state = self._new(ast.Name, "m", STORE)
        head: list[ast.stmt] = [
            self._new(ast.Assign, [state], self._new(ast.Call, self._global("modes", modes), [], []))
        ]
        head += [
            self._new(ast.Assign, [self._store(value)], self._new(ast.Constant, None))
            for value in opened
            if value in self.last
        ]
        pairs: list[ast.expr] = []
        for value in opened:
            if value in self.last:
                close = OPENERS[self.program.steps[value - self.first].target]
                pairs.append(self._new(ast.Tuple, [self._global(close.__name__, close), self._load(value)], LOAD))
        restore = self._new(ast.Attribute, self._new(ast.Name, "m", LOAD), "restore", LOAD)
        handler = self._new(
            ast.ExceptHandler,
            None,
            None,
            [self._new(ast.Expr, self._new(ast.Call, restore, pairs, [])), self._new(ast.Raise, None, None)],
        )
        return [*head, self._new(ast.Try, body, [handler], [], [])]

    def _call(self, step: Step) -> ast.expr:
        target, args = step.target, step.args
        keywords = [
            self._new(ast.keyword, name, self._expression(value))
            for name, value in step.kwargs.items()
            if _plain_name(name)
        ]
        odd = {name: value for name, value in step.kwargs.items() if not _plain_name(name)}
        if odd:
            keywords.append(self._new(ast.keyword, None, self._expression(odd)))
        if isinstance(target, str):
            receiver = self._new(ast.Attribute, self._expression(args[0]), target, LOAD)
            return self._new(ast.Call, receiver, [self._expression(item) for item in args[1:]], keywords)
        name = _name(target)
        if not keywords and name:
            operands = len(args)
            if operands == 2 and name in BINARY:
                return self._new(ast.BinOp, self._expression(args[0]), BINARY[name](), self._expression(args[1]))
            if operands == 2 and name in COMPARE:
                return self._new(ast.Compare, self._expression(args[0]), [COMPARE[name]()], [self._expression(args[1])])
            if operands == 1 and name in UNARY:
                return self._new(ast.UnaryOp, UNARY[name](), self._expression(args[0]))
            if operands == 2 and name == "getitem":
                return self._new(ast.Subscript, self._expression(args[0]), self._index(args[1]), LOAD)
        if target is getattr and len(args) == 2 and not keywords and _plain_name(args[1]):
            return self._new(ast.Attribute, self._expression(args[0]), args[1], LOAD)
        label = getattr(target, "__name__", type(target).__name__)
        target = native.EAGER[target] if _in(target, native.EAGER) else target
        return self._new(ast.Call, self._global(label, target), [self._expression(item) for item in args], keywords)

    def _expression(self, value: Any) -> ast.expr:
        if isinstance(value, Ref):
            return self._load(value.index)
        if isinstance(value, Program):
            return self._global("graph", _Writer(value, self.locate).write(None).function(), "g")
        if value is None or value is Ellipsis or type(value) in (bool, int, str, bytes):
            return self._new(ast.Constant, value)
        if type(value) is float and math.isfinite(value):
            return self._new(ast.Constant, value)
        if type(value) in (list, dict) or (isinstance(value, tuple | slice) and programs.refs(value)):
            return self._composite(value)
        if type(value) is tuple:
            return self._new(ast.Tuple, [self._expression(item) for item in value], LOAD)
        return self._global(getattr(value, "__name__", type(value).__name__), value, "c")

    def _composite(self, value: Any) -> ast.expr:
        if isinstance(value, list):
            return self._new(ast.List, [self._expression(item) for item in value], LOAD)
        if isinstance(value, dict):
            return self._new(
                ast.Dict, [self._expression(key) for key in value], [self._expression(item) for item in value.values()]
            )
        if isinstance(value, slice):
            items = [value.start, value.stop, value.step]
            return self._new(ast.Call, self._global("slice", slice), [self._expression(item) for item in items], [])
        items = [self._expression(item) for item in value]
        if type(value) is tuple:
            return self._new(ast.Tuple, items, LOAD)
        return self._new(ast.Call, self._global(type(value).__name__, type(value)), items, [])

    def _index(self, value: Any) -> ast.expr:
        """A subscript's inside, with slices in their own syntax."""
        if isinstance(value, slice):
            bounds = (value.start, value.stop, value.step)
            return self._new(ast.Slice, *(None if bound is None else self._expression(bound) for bound in bounds))
        if type(value) is tuple and value:
            return self._new(ast.Tuple, [self._index(item) for item in value], LOAD)
        return self._expression(value)

    def _value(self, number: int) -> str:
        return f"a{number}" if number < self.first else f"v{number - self.first}"

    def _load(self, number: int) -> ast.Name:
        return self._new(ast.Name, self._value(number), LOAD)

    def _store(self, number: int) -> ast.Name:
        return self._new(ast.Name, self._value(number), STORE)

    def _global(self, label: str, value: Any, letter: str = "f") -> ast.Name:
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = f"{letter}{len(self.names)}_{_identifier(label)}"
            self.globals[name] = value
        return self._new(ast.Name, name, LOAD)


def _lines(stacks: Sequence[tuple[Frame, ...]], locate: Locate, step: int) -> list[tuple[str, int, str]]:
    return [locate(frame) for frame in stacks[step - 1]]


def _name(target: Any) -> str | None:
    """The name of a function of the operator module."""
    if getattr(target, "__module__", None) in ("_operator", "operator"):
        return getattr(target, "__name__", None)
    return None


def _in(target: Any, table: Any) -> bool:
    try:
        return target in table
    except TypeError:
        return False


def _plain_name(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _identifier(label: str) -> str:
    name = re.sub(r"\W", "_", label)
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"graph_{name}"
