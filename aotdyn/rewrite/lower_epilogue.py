"""The second half of a generated function: call of the graph, then the epilogue's instructions.

docs/design/epilogue.md has the instruction set. Registers that only name
something (graph outputs, sources, constants, objects of the pool) are written
where they are used; the rest become locals `r<i>`, in order. Nothing is held
across a break: the frame ends by handing its state over.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aotdyn.runtime.variant import Instruction, Variant

if TYPE_CHECKING:
    from aotdyn.rewrite.walk import Walk

OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "**": ast.Pow,
    "<<": ast.LShift,
    ">>": ast.RShift,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
}

COMPARISONS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    ">": ast.Gt,
    ">=": ast.GtE,
    "is": ast.Is,
    "is not": ast.IsNot,
    "in": ast.In,
    "not in": ast.NotIn,
}


class Epilogue:
    """Lowers one variant's epilogue with the scope that its prologue left."""

    def __init__(self, variant: Variant, walk: Walk) -> None:
        self.variant = variant
        self.walk = walk
        self.registers: dict[int, Callable[[], ast.expr]] = {}
        self.statements: list[ast.stmt] = []

    def body(self) -> list[ast.stmt]:
        """Everything behind the guards."""
        if self.variant.leave:
            return [ast.Return(self.leave())]
        self.draws()
        if self.variant.graph is not None:
            self.graph()
        for step in self.variant.epilogue:
            try:
                lower = getattr(self, f"do_{step.op}")
            except AttributeError:
                raise ValueError(f"unknown epilogue operation {step.op!r}") from None
            value = lower(*step.args)
            if isinstance(value, ast.stmt):
                self.statements.append(value)
            elif callable(value):
                self.registers[step.dest] = value
            else:
                self.assign(step, value)
        if not self.statements or not isinstance(self.statements[-1], ast.Return):
            raise ValueError("epilogue doesn't end in return or resume")
        return self.statements

    def draws(self) -> None:
        """Random numbers, in the program's order, and what is made of them."""
        rows = [*self.variant.draws, *self.variant.inputs]
        rows += [step.args[0] for step in self.variant.epilogue if step.op == "source"]
        for source in (self.walk.sources[row] for row in rows):
            if source.late:
                self.walk.visit(source)
        self.statements += self.walk.late

    def leave(self) -> ast.expr:
        """None; at a function's start, the arguments for what runs the body, where an extent has such."""
        if self.variant.spec.offset:
            return ast.Constant(None)
        body = self.walk.pool("leave")
        args: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self.walk.args]
        return ast.BoolOp(ast.And(), [body, ast.Tuple([ast.Tuple(args, ast.Load()), body], ast.Load())])

    def graph(self) -> None:
        """`o = graph(inputs)`, counted; no `o` where no output is used.

        A graph that changes nothing gives way where it raises: the body runs, draws
        the same random numbers, and raises natively. So does one that hasn't changed yet
        what it is to change.
        """
        inputs = [self.walk.value(self.walk.sources[i]) for i in self.variant.inputs]
        self.statements.append(ast.Expr(ast.Call(self.walk.pool("count"), [], [])))
        call = ast.Call(self.walk.pool("graph"), inputs, [])
        used = any(step.op == "out" for step in self.variant.epilogue)
        run: ast.stmt = ast.Assign([ast.Name("o", ast.Store())], call) if used else ast.Expr(call)
        if not self.variant.gives_way and not self.variant.watched:
            self.statements.append(run)
            return
        fatal = ast.Tuple([self.walk.builtin("RecursionError"), self.walk.builtin("MemoryError")], ast.Load())
        unchanged: list[ast.stmt] = []
        if self.variant.watched:
            self.statements.append(ast.Assign([ast.Name("w", ast.Store())], self.versions()))
            moved = ast.Compare(ast.Name("w", ast.Load()), [ast.NotEq()], [self.versions()])
            unchanged = [ast.If(moved, [ast.Raise()], [])]
        if self.variant.redraws:
            read = ast.Call(self.walk.pool("helper", "random_states"), [], [])
            self.statements.append(ast.Assign([ast.Name("g", ast.Store())], read))
        handlers = [
            ast.ExceptHandler(fatal, None, [ast.Raise()]),
            ast.ExceptHandler(self.walk.builtin("Exception"), None, [*unchanged, *self.way()]),
        ]
        self.statements.append(ast.Try([run], handlers, [], []))

    def way(self) -> list[ast.stmt]:
        """Give way to the body."""
        leave = ast.Return(ast.Constant(None))
        if not self.variant.redraws:
            return [leave]
        restore = ast.Call(self.walk.pool("helper", "restore_random"), [ast.Name("g", ast.Load())], [])
        return [ast.Expr(restore), leave]

    def do_check(self, registers: list[int]) -> ast.stmt:
        """Give way unless all of them hold."""
        found = self.many(registers)
        return ast.If(ast.UnaryOp(ast.Not(), ast.BoolOp(ast.And(), found) if found[1:] else found[0]), self.way(), [])

    def versions(self) -> ast.expr:
        """How often the inputs that the graph writes to have been written to."""
        tensors = [self.walk.value(self.walk.sources[i]) for i in self.variant.watched]
        return ast.Call(self.walk.pool("helper", "versions"), tensors, [])

    def assign(self, step: Instruction, value: ast.expr) -> None:
        if step.dest < 0:
            self.statements.append(ast.Expr(value))
            return
        name = f"r{step.dest}"
        self.statements.append(ast.Assign([ast.Name(name, ast.Store())], value))
        self.registers[step.dest] = lambda: ast.Name(name, ast.Load())

    def get(self, register: int) -> ast.expr:
        return self.registers[register]()

    def many(self, registers: list[int]) -> list[ast.expr]:
        return [self.get(register) for register in registers]

    # Registers that only name something: a function that makes the expression anew for each use.

    def do_out(self, i: int) -> Callable[[], ast.expr]:
        return lambda: ast.Subscript(ast.Name("o", ast.Load()), ast.Constant(i), ast.Load())

    def do_source(self, i: int) -> Callable[[], ast.expr]:
        return lambda: self.walk.value(self.walk.sources[i])

    def do_const(self, data: Any) -> Callable[[], ast.expr]:
        if data is None or type(data) in (bool, int, float, str, bytes):
            return lambda: ast.Constant(data)
        if data[0] == "...":
            return lambda: ast.Constant(Ellipsis)
        return lambda: self.walk.pool("const", data)

    def do_import(self, module: str, qualname: str) -> Callable[[], ast.expr]:
        return lambda: self.walk.pool("object", module, qualname)

    def do_helper(self, name: str) -> Callable[[], ast.expr]:
        return lambda: self.walk.pool("helper", name)

    def do_local(self, i: int) -> Callable[[], ast.expr]:
        return lambda: self.walk.pool("local", i)

    def do_code(self, source: int, path: list[int]) -> Callable[[], ast.expr]:
        return lambda: self.walk.pool("code", source, list(path))

    def do_globals(self, source: int) -> Callable[[], ast.expr]:
        if source < 0:
            return lambda: self.walk.pool("globals", "")
        return self.do_source(source)

    def do_continuation(self, point: int) -> Callable[[], ast.expr]:
        return lambda: self.walk.pool("continuation", point)

    # Registers that are computed.

    def do_tuple(self, items: list[int]) -> ast.expr:
        return ast.Tuple(self.many(items), ast.Load())

    def do_list(self, items: list[int]) -> ast.expr:
        return ast.List(self.many(items), ast.Load())

    def do_set(self, items: list[int]) -> ast.expr:
        return ast.Set(self.many(items)) if items else ast.Call(self.walk.builtin("set"), [], [])

    def do_dict(self, items: list[list[int]]) -> ast.expr:
        return ast.Dict([self.get(key) for key, _ in items], [self.get(value) for _, value in items])

    def do_call(self, function: int, args: list[int], kwargs: dict[str, int]) -> ast.expr:
        keywords = [ast.keyword(name, self.get(value)) for name, value in kwargs.items()]
        return ast.Call(self.get(function), self.many(args), keywords)

    def do_getattr(self, obj: int, name: str) -> ast.expr:
        return ast.Attribute(self.get(obj), name, ast.Load())

    def do_getitem(self, obj: int, key: int) -> ast.expr:
        return ast.Subscript(self.get(obj), self.get(key), ast.Load())

    def do_binary(self, symbol: str, left: int, right: int) -> ast.expr:
        if symbol in COMPARISONS:
            return ast.Compare(self.get(left), [COMPARISONS[symbol]()], [self.get(right)])
        return ast.BinOp(self.get(left), OPERATORS[symbol](), self.get(right))

    # Effects.

    def do_setattr(self, obj: int, name: str, value: int) -> ast.stmt:
        return ast.Assign([ast.Attribute(self.get(obj), name, ast.Store())], self.get(value))

    def do_delattr(self, obj: int, name: str) -> ast.stmt:
        return ast.Delete([ast.Attribute(self.get(obj), name, ast.Del())])

    def do_setitem(self, obj: int, key: int, value: int) -> ast.stmt:
        return ast.Assign([ast.Subscript(self.get(obj), self.get(key), ast.Store())], self.get(value))

    def do_delitem(self, obj: int, key: int) -> ast.stmt:
        return ast.Delete([ast.Subscript(self.get(obj), self.get(key), ast.Del())])

    # The end.

    def do_return(self, value: int) -> ast.stmt:
        return ast.Return(ast.Tuple([self.get(value), ast.Constant(None)], ast.Load()))

    def do_resume(self, point: int, state: int) -> ast.stmt:
        return ast.Return(ast.Tuple([self.get(state), self.walk.pool("continuation", point)], ast.Load()))
