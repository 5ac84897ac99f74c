"""What an epilogue's `helper` instruction names: steps that plain calls and attribute access can't say.

The "raw" ones act as the builtin type does, past a subclass's own methods,
because the tracer has already followed (or ruled out) those.
"""

from __future__ import annotations

import collections
import contextlib
import copyreg
import functools
import itertools
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def make_function(
    code: types.CodeType,
    globals: dict[str, Any],
    name: str,
    qualname: str,
    defaults: tuple | None = None,
    kwdefaults: dict[str, Any] | None = None,
    closure: tuple | None = None,
    annotations: dict[str, Any] | None = None,
    doc: Any = None,
    namespace: dict[str, Any] | None = None,
) -> types.FunctionType:
    """A Python function as MAKE_FUNCTION makes it, with what was set on it since; `closure` holds cells."""
    function = types.FunctionType(code, globals, name, defaults, closure or None)
    function.__qualname__ = qualname
    if kwdefaults:
        function.__kwdefaults__ = kwdefaults
    if annotations is not None:
        function.__annotations__ = annotations
    if doc is not None:
        function.__doc__ = doc
    if namespace:
        function.__dict__.update(namespace)
    return function


def make_cell(*value: Any) -> types.CellType:
    """A new cell, empty without a value."""
    return types.CellType(*value)


def set_cell(cell: types.CellType, *value: Any) -> None:
    """Sets a cell's content, or empties it without a value."""
    if value:
        cell.cell_contents = value[0]
    else:
        try:
            del cell.cell_contents
        except ValueError:
            pass  # it was empty


def clear_cell(cell: types.CellType) -> None:
    """Empties a cell."""
    set_cell(cell)


def replace_list(target: list, items: Sequence[Any]) -> None:
    """Gives a list or deque new items, in place."""
    if isinstance(target, collections.deque):
        replace_deque(target, items)
    else:
        list.__setitem__(target, slice(None), items)


def replace_dict(target: dict, items: Any) -> None:
    """Gives a dict new items (a dict, or pairs) in their order, in place; an OrderedDict by its own methods."""
    items = dict(items)
    kind = _mapping_kind(target)
    kind.clear(target)
    for key, value in items.items():
        kind.__setitem__(target, key, value)


def _mapping_kind(target: Any) -> type[dict]:
    return collections.OrderedDict if isinstance(target, collections.OrderedDict) else dict


def replace_set(target: set, items: Any) -> None:
    """Gives a set new items, in place."""
    items = list(items)
    set.clear(target)
    set.update(target, items)


def replace_deque(target: Any, items: Any) -> None:
    """Gives a deque new items, in place."""
    items = list(items)
    collections.deque.clear(target)
    collections.deque.extend(target, items)


def numpy_array(tensor: Any) -> Any:
    """The numpy array that shares a tensor's memory."""
    return tensor.numpy()


def numpy_owner(tensor: Any) -> Any:
    """The same array as one that owns its memory, if nothing else refers to that."""
    import torch

    # One reference is the tensor's, one that of the storage object asked here.
    alone = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) <= 2  # type: ignore[attr-defined]
    return tensor.numpy().copy(order="K") if alone else tensor.numpy()


def numpy_readonly(tensor: Any) -> Any:
    """The same array as one that can't be written to."""
    array = tensor.numpy()
    array.flags.writeable = False
    return array


def numpy_scalar(tensor: Any) -> Any:
    """The numpy scalar that a tensor without dimensions holds."""
    return tensor.numpy()[()]


def new_object(cls: type) -> Any:
    """An object without `__init__` having run, by the `__new__` of the builtin behind its class."""
    for base in cls.__mro__:
        if base in _MADE_EMPTY:
            return base.__new__(cls)
    return object.__new__(cls)


_MADE_EMPTY = (
    *(collections.OrderedDict, collections.defaultdict, collections.deque, dict, list, set),
    *(types.SimpleNamespace, object),
)


def new_list(cls: type, items: Any = ()) -> Any:
    """An instance of a list subclass with these items."""
    made: Any = list.__new__(cls)
    list.extend(made, items)
    return made


def new_dict(cls: type, items: Any = ()) -> Any:
    """An instance of a dict subclass with these items."""
    made = new_object(cls)
    replace_dict(made, items)
    return made


def new_set(cls: type, items: Any = ()) -> Any:
    """An instance of a set or frozenset subclass with these items."""
    if issubclass(cls, frozenset):
        return frozenset.__new__(cls, items)
    made: Any = set.__new__(cls)
    set.update(made, items)
    return made


def new_tuple(cls: type, items: Any = ()) -> Any:
    """An instance of a tuple subclass (a namedtuple) with these items."""
    return tuple.__new__(cls, items)


def new_scalar(cls: type, value: Any) -> Any:
    """An instance of a subclass of int, float, str, bytes or complex with this value."""
    base = next(base for base in (int, float, str, bytes, complex) if issubclass(cls, base))
    return base.__new__(cls, value)


def new_exception(cls: type[BaseException], args: tuple = ()) -> BaseException:
    """An exception with these args, `__init__` not run."""
    made = cls.__new__(cls, *args)
    made.args = args
    return made


def new_group(cls: type[BaseExceptionGroup], message: str, exceptions: tuple, args: tuple) -> BaseExceptionGroup:
    """An exception group, its class's own methods not run, with the arguments that it was made of."""
    made = BaseExceptionGroup.__new__(cls, message, exceptions)
    made.args = args
    return made


def thrown(exc: BaseException, lines: Sequence[tuple[str, int, str]]) -> BaseException:
    """Gives an exception the traceback that it gathered while it was traced: file, line, function, outermost first.

    An exception being handled always has one: `with` hands it to `__exit__` unchecked.
    """
    for file, line, function in reversed(lines):
        frame = stand_in(file, line, function)
        exc.__traceback__ = types.TracebackType(exc.__traceback__, frame, frame.f_lasti, line)
    return exc


def thrown_as(exc: BaseException, other: BaseException) -> BaseException:
    """Gives an exception the very traceback of another."""
    exc.__traceback__ = other.__traceback__
    return exc


@functools.cache
def stand_in(file: str, line: int, function: str) -> types.FrameType:
    """A frame that stands for one of the user's.

    It is a waiting generator's: it refers to no caller, whose variables a
    traceback would keep alive, and the exception with them.
    """
    code = (lambda: (yield _getframe())).__code__  # type: ignore[name-defined]  # noqa: F821
    # Eight units an entry, at the first line, without columns (CPython's Objects/locations.md).
    everywhere = b"\xef\0" * (len(code.co_code) // 16 + 1)
    code = code.replace(
        co_filename=file, co_firstlineno=line, co_name=function, co_qualname=function, co_linetable=everywhere
    )
    waiting = types.FunctionType(code, {"_getframe": sys._getframe})()
    _waiting.append(waiting)
    return next(waiting)


_waiting: list[Any] = []
"The generators of all such frames."


def set_attribute_raw(obj: Any, name: str, value: Any) -> None:
    """`object.__setattr__`, past a class's own `__setattr__`."""
    (_LOCAL if type(obj) is _LOCAL else object).__setattr__(obj, name, value)


def delete_attribute_raw(obj: Any, name: str) -> None:
    """`object.__delattr__`, past a class's own `__delattr__`; nothing where the attribute isn't there."""
    with contextlib.suppress(AttributeError):
        (_LOCAL if type(obj) is _LOCAL else object).__delattr__(obj, name)


_LOCAL = threading.local
"""Its attributes are the thread's, which `object` doesn't know."""


def set_item_raw(target: dict, key: Any, value: Any) -> None:
    """`dict.__setitem__` past a subclass's own (an OrderedDict's keeps its order)."""
    _mapping_kind(target).__setitem__(target, key, value)


def delete_item_raw(target: dict, key: Any) -> None:
    """`dict.__delitem__` past a subclass's own."""
    _mapping_kind(target).__delitem__(target, key)


def delete_name(namespace: dict, name: str) -> None:
    """`del` of a global, which isn't there where tracing set it first."""
    namespace.pop(name, None)


def delete_class_attribute(cls: type, name: str) -> None:
    """`type.__delattr__`, past a metaclass's own; nothing where tracing set the attribute first."""
    with contextlib.suppress(AttributeError):
        type.__delattr__(cls, name)


def set_class_attribute(cls: type, name: str, value: Any) -> None:
    """`type.__setattr__`, past a metaclass's own."""
    type.__setattr__(cls, name, value)


def sequence_iterator_at(sequence: Sequence[Any], index: int | None) -> Iterator[Any]:
    """An iterator over a list, tuple, str, range or deque whose next item is `index`; used up where that is None."""
    made = iter(sequence)
    if index is None or isinstance(sequence, collections.deque):
        collections.deque(itertools.islice(made, index), maxlen=0)
    elif index:
        made.__setstate__(index)  # type: ignore[attr-defined]
    return made


def reversed_at(sequence: Sequence[Any], index: int) -> Iterator[Any]:
    """A reversed iterator whose next item is `index`; used up where that is -1."""
    made = reversed(sequence)
    made.__setstate__(index)
    return made


def advanced(iterator: Iterator[Any], count: int) -> Iterator[Any]:
    """The iterator, after `count` items were taken from it, or all where it has fewer."""
    collections.deque(itertools.islice(iterator, count), maxlen=0)
    return iterator


def used_up(generator: Any) -> None:
    """Ends a generator that hasn't started: none of its code runs."""
    generator.close()


def dict_iterator_at(mapping: dict, position: int, what: str = "keys") -> Iterator[Any]:
    """An iterator over a dict's keys, values or items that has already given `position` of them."""
    return advanced(iter(getattr(dict, what)(mapping)), position)


def zip_strict(*iterators: Iterator[Any]) -> Iterator[Any]:
    """`zip(*iterators, strict=True)`."""
    return zip(*iterators, strict=True)


def zip_longest_filled(fill: Any, *iterators: Any) -> Iterator[Any]:
    """`itertools.zip_longest(*iterators, fillvalue=fill)`."""
    return itertools.zip_longest(*iterators, fillvalue=fill)


def accumulate_from(iterator: Iterator[Any], function: Any, total: Any, given: bool) -> Iterator[Any]:
    """An `itertools.accumulate` that stands at `total`, which it has given already or gives next."""
    made = itertools.accumulate(iterator, function, initial=total)
    if given:
        next(made)
    return made


def call_with(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)`."""
    return function(*args, **kwargs)


def build_slice(*bounds: Any) -> slice:
    """`slice(start, stop, step)`."""
    return slice(*bounds)


def bind_method(function: Callable[..., Any], obj: Any) -> types.MethodType:
    """`function` bound to `obj`."""
    return types.MethodType(function, obj)


def warn_at(message: str, category: type[Warning], code: types.CodeType, offset: int, namespace: dict) -> None:
    """`warnings.warn` as it would be called in a frame of `code`, `offset` lines behind its first."""
    warnings.warn_explicit(
        message,
        category,
        code.co_filename,
        code.co_firstlineno + offset,
        namespace.get("__name__") or "<string>",
        namespace.setdefault("__warningregistry__", {}),
    )


def print_to(stream: str, sep: str | None, end: str | None, flush: bool, *values: Any) -> None:
    """`print(*values)` to the stream of this name in `sys`."""
    print(*values, sep=sep, end=end, file=getattr(sys, stream), flush=flush)


def slot_names(cls: type) -> None:
    """What pickling an instance leaves on its class: the names of its slots, which are kept there."""
    copyreg._slotnames(cls)  # type: ignore[attr-defined]


def filters_mutated() -> None:
    """Says that the filters of warnings have changed."""
    warnings._filters_mutated()  # type: ignore[attr-defined]


def raise_(exception: BaseException) -> None:
    """Raises an exception that the traced code raised."""
    raise exception


def versions(*tensors: Any) -> list[int]:
    """How often each tensor has been written to; one of inference mode doesn't tell."""
    return [-1 if each.is_inference() else each._version for each in tensors]


def random_states() -> list[Any]:
    """Where torch's default generators stand: the CPU's, and those of CUDA devices once they are in use."""
    import torch

    found: list[Any] = [torch.default_generator.get_state()]
    if torch.cuda.is_initialized():
        found += torch.cuda.get_rng_state_all()
    return found


def restore_random(states: list[Any]) -> None:
    """Sets the generators back to what `random_states` gave."""
    import torch

    torch.default_generator.set_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])


_FUNCTIONS = (
    versions,
    make_function,
    make_cell,
    set_cell,
    clear_cell,
    replace_list,
    replace_dict,
    replace_set,
    replace_deque,
    numpy_array,
    numpy_owner,
    numpy_readonly,
    numpy_scalar,
    new_object,
    new_list,
    new_dict,
    new_set,
    new_tuple,
    new_scalar,
    new_exception,
    new_group,
    thrown,
    thrown_as,
    set_attribute_raw,
    delete_attribute_raw,
    set_item_raw,
    delete_item_raw,
    delete_name,
    delete_class_attribute,
    set_class_attribute,
    sequence_iterator_at,
    reversed_at,
    advanced,
    used_up,
    dict_iterator_at,
    zip_strict,
    zip_longest_filled,
    accumulate_from,
    call_with,
    build_slice,
    bind_method,
    warn_at,
    print_to,
    filters_mutated,
    raise_,
    random_states,
    restore_random,
    id,
    slot_names,
)

HELPERS: dict[str, Callable[..., Any]] = {function.__name__.rstrip("_"): function for function in _FUNCTIONS}
"""What a `helper` instruction may name."""
