"""The short walk of a prologue: reads what the graph needs, and takes the rest from versions of dicts.

A full walk reads every attribute that tracing read. What it found in a dict
whose version is the same as then (guards.versions) it would find again, so
the short walk drops the guards that such a dict decides: keys that it has or
lacks, identity of its items, constants, classes that an object can't change.
What can change without the dict (the class of an instance, code of functions,
lists, tensors, globals) is checked as in the full walk. Dicts are compared in
batches, each before anything is read through it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from aotdyn.guards import sources as src
from aotdyn.guards.kinds import related
from aotdyn.guards.sources import Source
from aotdyn.guards.versions import SUPPORTED
from aotdyn.rewrite.walk import IDENTITIES, Walk, load, store

WORTH = 12
"Guards that a short walk must drop to be worth its code."

STATIC = {
    *(("builtins", name) for name in ("dict", "list", "tuple", "set", "frozenset", "str", "bytes", "int", "float")),
    *(("builtins", name) for name in ("bool", "complex", "NoneType", "function", "builtin_function_or_method")),
    ("collections", "OrderedDict"),
}
"Classes of which an instance stays one; binding sees that these names mean them."

NAMESPACES = (("builtins", "module"), ("builtins", "type"))
"Classes of objects whose `__dict__` is not compared: it moves for other reasons, or isn't a dict."

OF_DICT = ("LACKS", "HAS", "KEYS", "LEN", "TRUTH")
"Kinds that a dict decides about itself."

OF_ITEM = ("CONST", "OBJECT", "CLASS")
"Kinds that hold of an object for as long as it is that object."

MUTATIONS = ("setattr", "delattr", "setitem", "delitem")


class Plan:
    """Which dicts a variant's short walk compares, and which guards that makes needless.

    Everything is about the sources that stand in for others.
    """

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.guards = walk.variant.guards
        self.types = {walk.row(g.source): tuple(g.expected) for g in self.guards if g.kind == "TYPE"}
        self.written = self._written()
        self.candidates = {source for source in self._canonical() if self._is_dict(source)}
        self.dicts: set[Source] = set(self.candidates)
        self.empty = self._empties()
        gains = self._gains()
        self.dicts = {each for each in self.candidates - self.empty if gains[each] > 1}
        self.empty = {each for each in self.empty if self.fixed(each)}
        self.skipped = {i for i in range(len(self.guards)) if self._skips(i)}

    def _canonical(self) -> Iterator[Source]:
        stand_in = self.walk._stand_in
        return (source for source in self.walk.sources if stand_in[source] is source)

    def type_of(self, source: Source) -> tuple[str, ...] | None:
        return self.types.get(self.walk.index(source))

    def base(self, source: Source) -> Source | None:
        return self.walk._stand_in[source.bases[0]] if source.bases else None

    def fixed(self, source: Source) -> bool:
        """Whether the object is the same as long as the compared dicts and classes are."""
        base = self.base(source)
        if base is None:
            return False
        if isinstance(source, src.Item) and self.type_of(base) == ("builtins", "tuple"):
            return self.fixed(base)
        return self.of_class(source) or (isinstance(source, src.Item | src.Key) and base in self.dicts)

    def of_class(self, source: Source) -> bool:
        """Whether it is what the class of an object with a guarded type defines."""
        base = self.base(source)
        return isinstance(source, src.ClassAttr) and isinstance(base, src.TypeOf) and self.owner(base) is not None

    def owner(self, type_of: Source) -> Source | None:
        """The object, its class guarded, whose class this is."""
        owner = self.base(type_of)
        return owner if owner is not None and self.type_of(owner) is not None else None

    def _is_dict(self, source: Source) -> bool:
        if source in self.written or isinstance(source, src.Globals):
            return False
        if isinstance(source, src.Attr) and source.key == "__dict__":
            owner = self.base(source)
            kind = None if owner is None or owner in self.written else self.type_of(owner)
            return kind is not None and kind not in STATIC and kind not in NAMESPACES
        return self.type_of(source) == ("builtins", "dict")

    def _written(self) -> set[Source]:
        """What the epilogue may write to: its dict moves with each call."""
        named: dict[int, Source] = {}
        written: set[Source] = set()
        for step in self.walk.variant.epilogue:
            if step.op == "source":
                named[step.dest] = self.walk._stand_in[self.walk.sources[step.args[0]]]
            elif step.op in MUTATIONS:
                written.update(named[each] for each in step.args[:1] if each in named)
            elif step.op == "call":
                written.update(named[each] for each in step.args[1] if each in named)
        return written

    def _empties(self) -> set[Source]:
        """Dicts that were empty: held, and tested together."""
        found: set[Source] = set()
        for guard in self.guards:
            if guard.source >= 0 and _says_empty(guard.kind, guard.expected):
                source = self.walk._stand_in[self.walk.sources[guard.source]]
                kind = self.type_of(source)
                held = kind in (("builtins", "dict"), ("collections", "OrderedDict"))
                if held and isinstance(source, src.Item) and self.fixed(source) and source not in self.written:
                    found.add(source)
        return found

    def _gains(self) -> Counter[Source]:
        """How many guards a comparison of each dict saves: its own, and those on its items, through tuples."""
        found: Counter[Source] = Counter()
        for i, guard in enumerate(self.guards):
            if guard.source < 0:
                continue
            source = self.walk._stand_in[self.walk.sources[guard.source]]
            found[source] += guard.kind in OF_DICT
            base = self.base(source) if self._skips(i) else None
            while base is not None:
                found[base] += 1
                base = self.base(base) if self.type_of(base) == ("builtins", "tuple") else None
        return found

    def _skips(self, i: int) -> bool:
        guard = self.guards[i]
        if guard.source < 0 or guard.kind in ("SHAPE", "TENSOR"):
            return False
        source = self.walk._stand_in[self.walk.sources[guard.source]]
        if guard.kind in IDENTITIES:
            others = (self.walk._stand_in[self.walk.sources[row]] for row in related(guard.kind, guard.expected))
            return self.fixed(source) and all(map(self.fixed, others))
        if source in self.empty:
            return guard.kind in OF_DICT or guard.kind == "TYPE"
        if source in self.dicts and guard.kind in OF_DICT:
            return True
        if not self.fixed(source):
            return False
        if guard.kind == "TYPE":
            return tuple(guard.expected) in STATIC
        in_tuple = guard.kind == "LEN" and self.type_of(source) == ("builtins", "tuple")
        return guard.kind in OF_ITEM or in_tuple

    def static_rows(self) -> list[int]:
        """Rows whose classes are taken to stay: binding looks at them once."""
        rows = {self.walk.row(self.guards[i].source) for i in self.skipped if self.guards[i].kind == "TYPE"}
        return sorted(rows)


def _says_empty(kind: str, expected: Any) -> bool:
    return (kind == "KEYS" and not expected) or (kind == "LEN" and expected == 0) or (kind == "TRUTH" and not expected)


class Quick(Walk):
    """The short walk under construction. It shares the pool with the full walk, and sets the same variables."""

    def __init__(self, full: Walk, plan: Plan) -> None:
        self.__dict__.update(full.__dict__)
        self.plan = plan
        self.statements, self._tests = [], []
        self._read, self._checked, self._types = set(), set(), {}
        self._settled: set[int] = set()
        self.kept: list[Source] = []
        self.classes: list[Source] = []
        self._levels: dict[Source, int] = {}
        self.first = min(plan.dicts, key=self._place)
        self.batches = self._batched()
        self._batch_of = {each: i for i, batch in enumerate(self.batches) for each in batch}
        self._batches_above: dict[Source, set[int]] = {}

    def build(self, needed: Iterable[Source]) -> None:
        """Statements of the short walk, the batches of dicts, what is kept; `needed` is what follows reads."""
        guards = [i for i in range(len(self.plan.guards)) if i not in self.plan.skipped]
        wanted = self._closed({self._stand_in[source] for source in needed} | self.plan.dicts | self._guarded(guards))
        self.kept = sorted((each for each in wanted if self.plan.of_class(each)), key=self.index)
        self.classes = self._classes()
        self.visit(self.first)
        self._look_up()
        for source in sorted(wanted, key=self._place):
            self.visit(source)
        for i in range(len(self.batches)):
            self._settle(i)
        for i in guards:
            if self.plan.guards[i].kind not in ("SHAPE", "TENSOR", "GLOBAL"):
                self.check(i)
        self.flush()
        self.statements.append(ast.Break())

    def _guarded(self, guards: list[int]) -> set[Source]:
        """The sources of guards."""
        found = set()
        for guard in (self.plan.guards[i] for i in guards):
            if guard.source >= 0 and guard.kind != "SHAPE":
                found.add(self._stand_in[self.sources[guard.source]])
                found.update(self._stand_in[self.sources[row]] for row in related(guard.kind, guard.expected))
        return found

    def _place(self, source: Source) -> tuple[int, int]:
        return source.depth, self.index(source)

    def _closed(self, wanted: set[Source]) -> set[Source]:
        """With all bases; what classes define has none here, since it is kept."""
        todo, found = list(wanted), set()
        while todo:
            source = todo.pop()
            if source in found:
                continue
            found.add(source)
            if not self.plan.of_class(source):
                todo += [self._stand_in[base] for base in source.bases]
        return found

    def _classes(self) -> list[Source]:
        """One source for each class that the plan relies on."""
        found: dict[str, Source] = {}
        for source in self.sources:
            source = self._stand_in[source]
            if self.plan.of_class(source):
                owner = self.plan.owner(source.bases[0])
                assert owner is not None
                found.setdefault(ast.unparse(self.class_of(owner)), owner)
        return list(found.values())

    def _look_up(self) -> None:
        """`q` is the state remembered for the version of the first dict; it is taken apart."""
        version = ast.Call(self.version(), [self.value(self.first)], [])
        self.emit(store("q", ast.Call(self.pool("quick_find", *self.recipe()), [version], [])))
        self.statements.append(ast.If(ast.Compare(load("q"), [ast.Is()], [ast.Constant(None)]), [ast.Break()], []))
        batches = [f"q{i}" for i in range(len(self.batches))]
        self.emit(ast.Assign([_names(["qh", "qk", "qg", "qc", "qm", *batches])], load("q")))
        self.test(ast.UnaryOp(ast.Not(), ast.Call(self.builtin("any"), [load("qh")], [])))
        if self.classes:
            self._compare_classes()
        if self.kept:
            self.emit(ast.Assign([_names([f"v{self.index(each)}" for each in self.kept])], load("qk")))
        self._read.update(self.kept)

    def _compare_classes(self) -> None:
        """Nothing was set on the classes and their bases, and the bases are the same."""
        self.test(self._compared(load("qg"), "qc"))
        mros = [f"qm{i}" for i in range(len(self.classes))]
        self.emit(ast.Assign([_names(mros)], load("qm")))
        for name, owner in zip(mros, self.classes, strict=True):
            mro = ast.Attribute(self.class_of(owner), "__mro__", ast.Load())
            self.test(ast.Compare(mro, [ast.Is()], [load(name)]))

    def _batched(self) -> list[list[Source]]:
        """The dicts by how many of them stand above; the first is compared by being found."""
        levels: dict[int, list[Source]] = {}
        for each in sorted(self.plan.dicts - {self.first}, key=self.index):
            levels.setdefault(self._level(each), []).append(each)
        return [batch for _, batch in sorted(levels.items())]

    def _level(self, source: Source) -> int:
        """How many compared dicts stand above this one."""
        found = self._levels.get(source)
        if found is None:
            above = (self._level(base) + (base in self.plan.dicts) for base in self._bases(source))
            found = self._levels[source] = max(above, default=0)
        return found

    def _bases(self, source: Source) -> list[Source]:
        return [] if self.plan.of_class(source) else [self._stand_in[base] for base in source.bases]

    def _compared(self, dicts: ast.expr, expected: str) -> ast.expr:
        versions = ast.Call(self.builtin("map"), [self.version(), dicts], [])
        return ast.Compare(ast.List([ast.Starred(versions, ast.Load())], ast.Load()), [ast.Eq()], [load(expected)])

    def version(self) -> ast.expr:
        return self.pool("object", "torch._C._dynamo.guards", "dict_version")

    def recipe(self) -> tuple[list[int], list[int]]:
        """How binding makes the variant's Versions."""
        return [len(batch) for batch in self.batches], self.plan.static_rows()

    # What Walk asks.

    def visit(self, source: Source) -> None:
        source = self._stand_in[source]
        if source in self._read:
            return
        for base in self._bases(source):
            self.visit(base)
        for i in sorted(self._above(source) - self._settled):
            self._settle(i)
        super().visit(source)

    def _above(self, source: Source) -> set[int]:
        """The batches that have a dict which the source is read through."""
        found = self._batches_above.get(source)
        if found is None:
            found = self._batches_above[source] = set()
            for base in self._bases(source):
                found |= self._above(base)
                if base in self._batch_of:
                    found.add(self._batch_of[base])
        return found

    def _settle(self, i: int) -> None:
        """Compares a batch of dicts with their versions, before anything is read through one of them."""
        if i not in self._settled:
            for each in self.batches[i]:
                self.visit(each)
            self._settled.add(i)
            self.test(self._compared(_tuple([self.value(each) for each in self.batches[i]]), f"q{i}"))

    def check(self, i: int) -> None:
        guard = self.plan.guards[i]
        if i not in self.plan.skipped:
            super().check(i)
        elif guard.kind == "TYPE":
            self._types[self._stand_in[self.sources[guard.source]]] = list(guard.expected)

    def failed(self) -> list[ast.stmt]:
        return [store("q", ast.Constant(None)), ast.Break()]

    def arm(self, full: Walk) -> ast.stmt:
        """The last statement of the full walk."""
        dicts = [self.first, *(each for batch in self.batches for each in batch)]
        groups = (dicts, sorted(self.plan.empty, key=self.index), self.kept)
        parts: list[ast.expr] = [_tuple([full.value(each) for each in group]) for group in groups]
        parts.append(_tuple([self.class_of(each) for each in self.classes]))
        return ast.Expr(ast.Call(self.pool("quick_arm", *self.recipe()), parts, []))


def quick(full: Walk, needed: Iterable[Source]) -> Quick | None:
    """The short walk for a full walk; None where it isn't worth its code or can't be."""
    if not SUPPORTED:
        return None
    plan = Plan(full)
    if not plan.dicts or len(plan.skipped) < WORTH:
        return None
    made = Quick(full, plan)
    made.build(needed)
    return made


def _names(names: list[str]) -> ast.Tuple:
    return ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())


def _tuple(items: list[ast.expr]) -> ast.Tuple:
    return ast.Tuple(items, ast.Load())
