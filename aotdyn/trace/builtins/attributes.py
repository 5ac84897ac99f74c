"""`vars(obj)` as a dict: views of an instance's attributes, and of a class's."""

from __future__ import annotations

from typing import Any

from aotdyn.trace.control import Break
from aotdyn.trace.model.attributes import instance_lookup
from aotdyn.trace.values import Const, InstanceDict, Iterator, Value

from .common import advanced
from .views import DICT_VIEWS, DictView


class AttributeView(DictView):
    """`obj.__dict__.keys()` and kin: looks at the attributes whenever it is asked."""

    __slots__ = ()

    def __init__(self, owner: InstanceDict, kind: str) -> None:
        super().__init__(owner, kind)  # type: ignore[arg-type]

    @property
    def cls(self) -> type:  # type: ignore[override]
        return DICT_VIEWS[self.kind]

    def _entries(self, t: Any) -> dict[Any, tuple[Value, Value]]:
        owner = self.mapping.owner  # type: ignore[attr-defined]
        found = {name: instance_lookup(t, owner, name) for name in t.instance_names(owner)}
        return {name: (Const(name), value) for name, value in found.items() if value is not None}

    def iterator(self, backwards: bool = False) -> Any:
        if backwards:
            raise Break("reversed() of an object's __dict__")
        return AttributeIterator(self)


class AttributeIterator(Iterator):
    """Over the attributes of an object, in order; one that gets or loses attributes meanwhile is Python's."""

    __slots__ = ("index", "names", "view")

    def __init__(self, view: AttributeView) -> None:
        super().__init__()
        self.view = view
        self.names: list[str] | None = None
        self.index = 0

    @property
    def cls(self) -> type:  # type: ignore[override]
        return type(iter({}.keys()))

    def advance(self, t: Any) -> Value | None:
        entries = self.view._entries(t)
        if self.names is None:
            self.names = list(entries)
        elif self.names != list(entries):
            raise Break("an object's attributes change while they are iterated")
        t.mutated(self)
        if self.index == len(self.names):
            return None
        self.index += 1
        return self.view.of(entries[self.names[self.index - 1]])

    def rebuild(self, e: Any) -> int:
        e.settle(self.view.mapping.owner)  # type: ignore[attr-defined]
        return advanced(e, e.call(e.import_("builtins", "iter"), [e.value(self.view)]), self.index)
