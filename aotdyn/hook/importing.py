"""What a program's imports cost the garbage collector: while they go on, and from then on.

While modules are imported garbage is collected seldom: collections would take a
tenth of a short program's time, and find nothing. And what the imports at a
program's head have made is frozen (`gc.freeze`): modules, classes and functions
stay to the end, and each full collection, of which the end of the interpreter
alone makes four, would go through some hundred thousand of them.

Frozen objects are freed by their counts as ever; only cycles of them aren't
found. So nothing is frozen once the program has begun: once it has made objects
of its own, or met tensors. What of the rest has something to do at its end is
looked for, and where there is such a thing, the end is as it would be.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import sys
import weakref
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from aotdyn import collecting, config
from aotdyn.hook import ends

IMPORTING = 10_000
"""Objects made, and not freed, between two collections of young ones while a module is being imported (CPython: 700).

With many more what goes by isn't found until the interpreter ends, where it takes as long.
"""

OWN = 5_000
"Objects between two imports from which on they are a program's, whatever they are."

OURS = ("aotdyn", "msgspec", "typing_extensions")
"Packages that are there before the program is."

HEAD: tuple[type, ...] = (dict, list, set, tuple, FunctionType, MethodType, BuiltinFunctionType, CellType)
HEAD += (ModuleType, FrameType, weakref.ReferenceType, _thread.LockType, frozenset, type(iter(())), type(iter([])))
"Classes of objects that a program makes between two imports without having begun."

IMPORTERS = ("_frozen_importlib", "_frozen_importlib_external", "importlib", "zipimport", "aotdyn")
"Packages whose objects an import takes."

_ordinary: tuple[int, int, int] | None = None
"The program's own thresholds, while others hold"

_at_head = False
"Whether the program has done nothing but import."

_started = False
"Whether there has been a head."

_ending: list[weakref.ref[Any]] = []
"What is frozen and has something to do at its end"

_ends_late = False
"Whether there is more of that, which has no weak references."


def start(nothing_yet: bool = False) -> None:
    """What follows is a program's head, unless it has begun: it has imported torch, or made objects of its own classes.

    `nothing_yet`: no line of it has been run.
    """
    global _at_head, _started
    if _started or "torch" in sys.modules or not (gc.isenabled() and config.current().freeze_imports):
        return
    if nothing_yet or _is_all_standard():
        _at_head = _started = True
        atexit.register(_thaw_if_needed)
        _freeze()


def under_way() -> bool:
    """Whether nothing is to be changed where an import begins: one goes on already, or the program collects by hand."""
    return _ordinary is not None or not gc.isenabled()


def begin() -> bool:
    """Collect seldom from now on; whether that was to be changed, so that `end` is to follow.

    There is a bound, since a module's body may be a whole program. The other two thresholds stay: a program may
    multiply them, and keep what comes of it.
    """
    global _ordinary, _at_head
    ordinary = gc.get_threshold()
    if under_way() or not 0 < ordinary[0] < IMPORTING:
        return False
    _at_head = _at_head and not _has_begun()
    _ordinary = ordinary
    gc.set_threshold(IMPORTING, *ordinary[1:])
    return True


def end() -> None:
    """An import has ended: collect as the program would have it."""
    global _ordinary
    if _ordinary is None:
        return
    if gc.get_threshold() == (IMPORTING, *_ordinary[1:]):  # else the program has set its own
        gc.set_threshold(*_ordinary)
    _ordinary = None
    if _at_head and not _thread._count():
        _freeze()


def work_begins() -> None:
    """The program works with tensors: be it inside of an import, collect as it would have it, and freeze no more."""
    global _at_head
    _at_head = False
    end()


def _has_begun() -> bool:
    """Whether since the last import anything was made but functions, what holds modules, and what importing takes.

    Else it may be the program's own, whose end somebody waits for.
    """
    made = gc.get_objects()
    return len(made) > OWN or not all(map(_is_of_imports, ends.classes(made))) or _thread._count() > 0


def _is_of_imports(cls: type) -> bool:
    return any(cls is each for each in HEAD) or _package(cls) in IMPORTERS


def _is_all_standard() -> bool:
    finders = {id(finder) for finder in sys.meta_path}
    return all(map(_is_standard, ends.classes(each for each in gc.get_objects() if id(each) not in finders)))


def _is_standard(cls: type) -> bool:
    return _package(cls) in sys.stdlib_module_names or _package(cls) in OURS


def _package(cls: type) -> str:
    """The outermost package of a class; no code of its metaclass runs."""
    return str(type.__getattribute__(cls, "__module__")).partition(".")[0]


def _freeze() -> None:
    """Freeze all that there is, but for garbage that may hold something or has something to do."""
    global _ends_late
    made = gc.get_objects()
    collect = any(cls is FrameType for cls in ends.classes(made)) or bool(ends.with_an_end(made))
    del made
    if collect:
        gc.collect()
        try:
            _ending.extend(weakref.ref(each) for each in ends.with_an_end(gc.get_objects()))
        except TypeError:
            _ends_late = True
    collecting.freeze()


def _thaw_if_needed() -> None:
    """At the end: something that is to be closed may hang on a cycle that is frozen."""
    frozen = [each for reference in _ending if (each := reference()) is not None]
    if _ends_late or ends.with_an_end([*frozen, *gc.get_objects()]):
        collecting.thaw()
