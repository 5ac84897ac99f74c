"""The slow form of each kind of guard: whether what lies at its source is as its data says (see `guards.kinds`).

Binding evaluates all guards of a variant so, once a process. What the fast
forms are and what is said of a guard that fails lies apart, in `kinds`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from aotdyn.guards import constants, globalstate, naming, shapes, tensors
from aotdyn.guards.reads import contains, enabled, keys_getter, lacks_attribute, raw_len
from aotdyn.guards.sources import Env, Globals
from aotdyn.guards.tensors import class_path

Check = Callable[[Any, Any, Env], bool]
"""`check(object, expected, env)`; the object is None for a guard without a source."""


def code_digest(function: types.FunctionType) -> str:
    """Digest of the function's original code, whether it is a stub now or not, wrapped by torch (`enabled`) or not."""
    from aotdyn.rewrite.digest import digest
    from aotdyn.rewrite.originals import original

    code = enabled(function).__code__
    known = _digests.get(id(code))
    if known is None or known[0] is not code:
        known = _digests[id(code)] = code, digest(original(code))
    return known[1]


_digests: dict[int, tuple[types.CodeType, str]] = {}


def _check_const(obj: Any, expected: Any, env: Env) -> bool:
    return constants.same(obj, constants.decode(expected))


def _check_function(obj: Any, expected: Any, env: Env) -> bool:
    if not isinstance(obj, types.FunctionType) or code_digest(obj) != expected[2]:
        return False
    where = expected[3]
    return where is None or obj.__globals__ is env.read(Globals(where))


def object_data(obj: Any, path: tuple[str, str]) -> list[str]:
    """What an OBJECT guard expects: the path, and what the object calls itself.

    Where the source is the path itself, the path says nothing: a function
    that was put there in the original's place is told by the rest.
    """
    return [*path, type(obj).__qualname__, str(getattr(obj, "__name__", "")), str(getattr(obj, "__module__", ""))]


def _check_object(obj: Any, expected: Any, env: Env) -> bool:
    if object_data(obj, expected[:2]) != list(expected):
        return False
    found = naming.find(expected[0], expected[1], load=False)
    return found is obj or (type(obj) is types.BuiltinFunctionType and bool(found == obj))


def _check_keys(obj: Any, expected: Any, env: Env) -> bool:
    keys = keys_getter(obj)(obj)
    if all(type(key) is str for key in keys) and keys == tuple(expected):
        return True
    return len(keys) == len(expected) and all(
        constants.same(key, constants.decode(data)) for key, data in zip(keys, expected, strict=True)
    )


def _check_mro(obj: Any, expected: Any, env: Env) -> bool:
    return isinstance(obj, type) and [class_path(cls) for cls in type.mro.__get__(obj)()] == expected


def _check_order(obj: Any, expected: Any, env: Env) -> bool:
    keys, order = ([constants.decode(key) for key in each] for each in expected)
    return list(set(keys)) == order


def _check_shape(obj: Any, expected: Any, env: Env) -> bool:
    names = {name: shapes.read(env, *where) for name, where in expected["names"].items()}
    return bool(shapes.evaluate(expected["expr"], names))


def other(env: Env, index: int) -> Any:
    """The object at another source of the variant."""
    return env.read(env.sources[index])


CHECKS: dict[str, Check] = {
    "TYPE": lambda obj, expected, env: class_path(type(obj)) == list(expected[:2]),
    "CONST": _check_const,
    "TENSOR": lambda obj, expected, env: tensors.matches(obj, expected),
    "FUNCTION": _check_function,
    "OBJECT": _check_object,
    "CLASS": lambda obj, expected, env: isinstance(obj, type) and class_path(obj) == list(expected),
    "LEN": lambda obj, expected, env: raw_len(obj)(obj) == expected,
    "KEYS": _check_keys,
    "HAS": lambda obj, expected, env: contains(obj)(obj, constants.decode(expected)),
    "LACKS": lambda obj, expected, env: not contains(obj)(obj, constants.decode(expected)),
    "NOATTR": lambda obj, expected, env: lacks_attribute(obj, expected),
    "SAME": lambda obj, expected, env: obj is other(env, expected),
    "DISTINCT": lambda obj, expected, env: obj is not other(env, expected),
    "APART": lambda obj, expected, env: len({id(other(env, row)) for row in expected}) == len(expected),
    "MRO": _check_mro,
    "TRUTH": lambda obj, expected, env: bool(obj) is expected,
    "ORDER": _check_order,
    "SHAPE": _check_shape,
    "GLOBAL": lambda obj, expected, env: globalstate.difference(expected) is None,
}
"""By the names of `kinds.KINDS`."""
