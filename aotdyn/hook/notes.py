"""Torch's notes to TorchDynamo, kept until there is a TorchDynamo to read them.

Some of torch's own code imports torch._dynamo only to tell it something:
functions that it is not to trace (`_disable_dynamo`, torch/_compile.py: methods
of optimizers, `checkpoint`, ...), the steps of optimizers, which break its
graph, and the marks of torch.compiler. The import takes a program a second.
Until something imports torch._dynamo for its own sake all these do what they do
beside it; from then on they are as torch made them.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from aotdyn import marks
from aotdyn.hook import attach
from aotdyn.hook.finder import finder
from aotdyn.rewrite import originals, steps

READER = "torch._dynamo"

KEPT_IN = "__dynamo_disable"
"The attribute in which the wrapper of a function that isn't to be traced keeps what it calls: here, the function."

_hidden: weakref.WeakSet[FunctionType] = weakref.WeakSet()
"Functions that aren't to be traced."
_steps: list[tuple[weakref.ref[FunctionType], CodeType]] = []
"Optimizers' steps, and the code that torch gave them."
_marked: list[tuple[Callable[[Any], Any], weakref.ref[Any]]] = []
"Calls that are to be made: of torch.compiler's functions, with what."


def keep() -> None:
    """Keep notes from the import of torch on; nothing where it has been imported."""
    if "torch" not in sys.modules:
        finder.after_import.update({**_REPLACEMENTS, READER: _hand_over})


def stop() -> None:
    """Keep no more notes. Those that are kept stay until somebody reads them."""
    for name in _REPLACEMENTS:
        finder.after_import.pop(name, None)
    for name, attribute, _ in _PLACES:
        module = sys.modules.get(name)
        original = getattr(getattr(module, attribute, None), "__aotdyn_original__", None)
        if original is not None:
            setattr(module, attribute, original)
    if not (_hidden or _steps or _marked):
        finder.after_import.pop(READER, None)


def _unread() -> bool:
    return READER not in sys.modules


def _hide(original: Callable[..., Any], fn: Any = None, recursive: bool = True) -> Any:
    if fn is None:
        return functools.partial(_hide, original, recursive=recursive)
    wrapped = original(fn, recursive)
    if type(fn) is FunctionType and _unread():
        setattr(fn, KEPT_IN, fn)
        _hidden.add(fn)
    return wrapped


def _step(original: Callable[..., Any], func: Any) -> Any:
    step = original(func)
    code = step.__code__
    made = steps.without_breaks(code)
    if made is not code and _unread():
        originals.stands_for(made, code)
        _steps.append((weakref.ref(step), code))
        step.__code__ = made
    return step


def _allow(original: Callable[..., Any], fn: Any) -> Any:
    if isinstance(fn, list | tuple):
        return [_allow(original, each) for each in fn]
    if _noted(original, fn):
        marks.ALLOWED_LATER[id(fn)] = weakref.ref(fn)
        return fn
    return original(fn)


def _mark(original: Callable[..., Any], fn: Any) -> Any:
    return fn if _noted(original, fn) else original(fn)


def _noted(original: Callable[..., Any], fn: Any) -> bool:
    """Whether the call of `original` can wait; what makes no sense it is to refuse at once."""
    if not (_unread() and callable(fn)):
        return False
    try:
        _marked.append((original, weakref.ref(fn)))
    except TypeError:
        return False
    return True


def _hand_over() -> None:
    """TorchDynamo is there, and is told all."""
    attach.with_torch()  # else a stub would load it while TorchDynamo goes through, which restarts and finds it changed
    for function in list(_hidden):
        if vars(function).get(KEPT_IN) is function:
            delattr(function, KEPT_IN)
    _hidden.clear()
    for step, code in _steps:
        found = step()
        if found is not None and originals.original(found.__code__) is code:
            found.__code__ = code
    _steps.clear()
    for original, noted in _marked:
        if (marked := noted()) is not None:
            original(marked)
    _marked.clear()
    marks.ALLOWED_LATER.clear()


def _replace(name: str, attribute: str, ours: Callable[..., Any]) -> None:
    """Replace a function of a module that has just been executed."""
    module = sys.modules[name]
    original = getattr(module, attribute, None)
    if original is not None:

        @functools.wraps(original)
        def made(*args: Any, **kwargs: Any) -> Any:
            if ours is not _hide and (len(args) != 1 or kwargs):
                return original(*args, **kwargs)  # which says what is wrong
            return ours(original, *args, **kwargs)

        made.__aotdyn_original__ = original  # type: ignore[attr-defined]
        setattr(module, attribute, made)


_PLACES = (
    ("torch._compile", "_disable_dynamo", _hide),
    ("torch.optim.optimizer", "_use_grad_for_differentiable", _step),
    ("torch.compiler", "allow_in_graph", _allow),
    ("torch.compiler", "assume_constant_result", _mark),
)


def _replace_all(name: str) -> None:
    for module, attribute, ours in _PLACES:
        if module == name:
            _replace(name, attribute, ours)


_REPLACEMENTS = {name: functools.partial(_replace_all, name) for name, _, _ in _PLACES}
