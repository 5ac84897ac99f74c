"""Kinds of guards: a closed table of predicates on the object at a source.

A kind is checked slowly from its data (`check`, when a variant is bound or
re-armed: `guards.checks`, which a warm start needs alone), fast by an
expression of the generated prologue (`test`, with cells that binding fills
from the live objects after `check` held), and says in one sentence what no
longer holds (`describe`). The fast form may be stricter than
the data (it compares by identity what was found by name), never weaker.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import torch

from aotdyn.guards import checks, constants, fast, globalstate, naming, reads, shapes, tensors
from aotdyn.guards.checks import code_digest, other
from aotdyn.guards.sources import Env, words
from aotdyn.guards.tensors import class_path


class Reason(str):
    """A sentence that says why a guard fails. `subject`, `was` and `now` are its parts, where it has such.

    `where` is the line that asked for the guard, as "app.py:12"; empty where that isn't known.
    """

    __slots__ = ("now", "subject", "was", "where")

    subject: str
    was: str
    now: str
    where: str

    @classmethod
    def of(cls, sentence: str, where: str = "") -> Reason:
        """The sentence with the line that asked; the parts of one that has them are kept."""
        made = cls(sentence)
        for part in ("subject", "was", "now"):
            setattr(made, part, getattr(sentence, part, ""))
        made.where = where
        return made

    @classmethod
    def changed(cls, subject: str, was: Any, now: Any) -> Reason:
        """`subject`, quoted where it is code, was one thing and is another."""
        made = cls.of(f"{subject} was {was}, is {now}")
        made.subject, made.was, made.now = subject, str(was), str(now)
        return made


def merged(reasons: Iterable[str]) -> list[str]:
    """Reasons as sentences, each once: what one thing was before in one sentence, equal ones with their count."""
    found: dict[Any, list[Reason]] = {}
    for reason in map(_as_reason, reasons):
        key = (reason.subject, reason.now, reason.where) if reason.subject else (str(reason), reason.where)
        found.setdefault(key, []).append(reason)
    return [_together(group) for group in found.values()]


def _as_reason(reason: str) -> Reason:
    return reason if isinstance(reason, Reason) else Reason.of(reason)


def _together(group: list[Reason]) -> str:
    first = group[0]
    before = list(dict.fromkeys(reason.was for reason in group))
    text = str(first)
    if first.subject and len(before) > 1:
        text = f"{first.subject} was {_listed(before)}, is {first.now}"
    elif len(group) > 1:
        text += f" ({len(group)} times)"
    return f"{text} [{first.where}]" if first.where else text


def _listed(words: list[str]) -> str:
    """Words with `and`; of many the first few and the last."""
    if len(words) > MANY:
        words = [*words[: MANY - 2], "...", words[-1]]
    return f"{', '.join(words[:-1])} and {words[-1]}"


MANY = 10
"""Values that a sentence lists."""


class Kind(msgspec.Struct, frozen=True):
    """One predicate. `obj` is the object at the guard's source (None for a guard without one)."""

    name: str
    doc: str
    test: fast.Test
    describe: Callable[[str, Any, Any, Env], str]

    @property
    def check(self) -> checks.Check:
        """The slow form: see `guards.checks`."""
        return checks.CHECKS[self.name]


def encode_keys(mapping: Any) -> list[Any]:
    """Ordered keys of a mapping as a KEYS guard expects them; NotConstant where one isn't a constant."""
    return [constants.encode(key) for key in reads.keys_getter(mapping)(mapping)]


def type_data(cls: type) -> list[str]:
    """What a TYPE guard expects: module and qualified name; and "made" for a class that isn't found there.

    There may be several of that name: `torch.nn.utils.parametrize` makes one for each module.
    """
    path = class_path(cls)
    try:
        found = naming.find(path[0], path[1], load=False)
    except LookupError:
        found = None
    return path if found is cls else [*path, "made"]


def function_data(function: types.FunctionType, own: dict[str, Any]) -> list[Any]:
    """What a FUNCTION guard expects: module, qualified name, digest of the original code, and whose globals it reads.

    The last is a module's name, "" for `own` (those of the guarded frame), or
    None where they are of no loaded module: what is read of them is reached
    through the function then.
    """
    where = "" if function.__globals__ is own else naming.module_name(function.__globals__)
    return [function.__module__ or "", function.__qualname__, code_digest(function), where]


def _text(env: Env, index: int) -> str:
    return words(env.sources[index], env)


def _twice(env: Env, rows: list[int]) -> str:
    """The first two of some sources that give the same object."""
    first: dict[int, int] = {}
    for row in rows:
        before = first.setdefault(id(other(env, row)), row)
        if before != row:
            return f"`{_text(env, before)}` and `{_text(env, row)}`"
    return "objects"


def related(kind: str, expected: Any) -> list[int]:
    """Indices of the other sources at which a guard of a kind compares objects."""
    if kind in ("SAME", "DISTINCT"):
        return [expected]
    return expected[1:] if kind == "APART" else []


def _show(value: Any) -> str:
    """An object in few words. No code of the program runs, and no tensor's numbers are shown."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')} and shape {tuple(value.shape)}"
    if constants.is_constant(value) or isinstance(value, SHOWN):
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:77]}..."
    if type(value) in (list, tuple):
        from aotdyn.report.plural import counted

        return f"a {type(value).__name__} of {counted(len(value), 'item')}"
    return f"a {_path(class_path(type(value)))}"


SHOWN = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
"""Objects whose `repr` is short and runs nothing of the program's."""


def _path(path: Any) -> str:
    return ".".join(part for part in path[:2] if part and part != "builtins")


def _describe_tensor(text: str, expected: Any, obj: Any, env: Env) -> str:
    found = tensors.difference(obj, expected)
    if found is None:
        return f"`{text}` was another tensor"
    field, wanted, have = found
    if field == "class":
        return Reason.changed(f"`{text}`", f"a {_path(wanted)}", f"a {_path(have)}")
    if field == "keys":
        return f"dispatch keys of `{text}` were {wanted}, are {have}"
    return Reason.changed(f"`{text}.{field}`", str(wanted), str(have))


def _describe_keys(text: str, expected: Any, obj: Any, env: Env) -> str:
    before, now = map(constants.decode, expected), reads.keys_getter(obj)(obj)
    return Reason.changed(f"`list({text})`", *(f"[{', '.join(map(_show, keys))}]" for keys in (before, now)))


def _describe_global(text: str, expected: Any, obj: Any, env: Env) -> str:
    found = globalstate.difference(expected)
    if found is None:
        return "global state moved"
    name, wanted, have = found
    return Reason.changed(name.replace("_", " "), _show(wanted), _show(have))


def relation_text(expected: Any, env: Env) -> str:
    """A relation of sizes as a user would write it."""
    return shapes.in_words(expected, [words(source, env) for source in env.sources])


def _size(env: Env, source: int, what: str, dim: int) -> str:
    return shapes.place(words(env.sources[source], env), what, dim)


def _describe_shape(text: str, expected: Any, obj: Any, env: Env) -> str:
    found = [f"{_size(env, *where)} = {shapes.read(env, *where)}" for where in expected["names"].values()]
    return f"`{relation_text(expected, env)}` held, doesn't with {', '.join(found)}"


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "TYPE",
            "The exact class, expected as type_data says.",
            fast.type_,
            lambda text, expected, obj, env: Reason.changed(
                f"`{text}`", f"a {_path(expected)}", f"a {_path(class_path(type(obj)))}"
            ),
        ),
        Kind(
            "CONST",
            "A constant by exact type and value, encoded.",
            fast.const,
            lambda text, expected, obj, env: Reason.changed(f"`{text}`", _show(constants.decode(expected)), _show(obj)),
        ),
        Kind(
            "TENSOR",
            "A tensor's metadata as guards.tensors.metadata gives it; null sizes and strides may be anything.",
            fast.tensor,
            _describe_tensor,
        ),
        Kind(
            "FUNCTION",
            "A Python function by its code and its namespace, expected as function_data says.",
            fast.function,
            lambda text, expected, obj, env: f"`{text}` was {_path(expected)}, is other code: {_show(obj)}",
        ),
        Kind(
            "OBJECT",
            "A C function, class or module found at a public path: [module, qualname, its type, name and module].",
            fast.live,
            lambda text, expected, obj, env: Reason.changed(f"`{text}`", _path(expected), _show(obj)),
        ),
        Kind(
            "CLASS",
            "A class without a public path (local to a function), expected as [module, qualname].",
            fast.live,
            lambda text, expected, obj, env: Reason.changed(f"`{text}`", _path(expected), _show(obj)),
        ),
        Kind(
            "LEN",
            "Number of items of a builtin container or a subclass.",
            fast.length,
            lambda text, expected, obj, env: Reason.changed(f"`len({text})`", expected, reads.raw_len(obj)(obj)),
        ),
        Kind(
            "KEYS",
            "Keys of a mapping in order, encoded. Fast, a key that equals an expected `str` is taken for it.",
            fast.keys,
            _describe_keys,
        ),
        Kind(
            "HAS",
            "A key, encoded, that a dict or set holds.",
            fast.has,
            lambda text, expected, obj, env: f"`{text}` had {_show(constants.decode(expected))}, no longer has",
        ),
        Kind(
            "LACKS",
            "A key, encoded, that a dict or set doesn't hold.",
            fast.lacks,
            lambda text, expected, obj, env: f"`{text}` had no {_show(constants.decode(expected))}, now has",
        ),
        Kind(
            "NOATTR",
            "A name that neither the object's class nor its own dict holds.",
            fast.noattr,
            lambda text, expected, obj, env: f"`{text}` had no attribute {expected}, now has",
        ),
        Kind(
            "SAME",
            "The object is the one at another source, expected as its index.",
            fast.same,
            lambda text, expected, obj, env: f"`{text}` was `{_text(env, expected)}`, is another object",
        ),
        Kind(
            "DISTINCT",
            "The object isn't the one at another source, expected as its index.",
            fast.distinct,
            lambda text, expected, obj, env: f"`{text}` wasn't `{_text(env, expected)}`, is the same object",
        ),
        Kind(
            "APART",
            "The objects at several sources, expected as their indices, the guard's own first, are all different.",
            fast.apart,
            lambda text, expected, obj, env: f"{_twice(env, expected)} are the same object, and weren't",
        ),
        Kind(
            "MRO",
            "The MRO of the class at the source, expected as a list of [module, qualname].",
            fast.mro,
            lambda text, expected, obj, env: f"bases of `{text}` changed",
        ),
        Kind(
            "TRUTH",
            "Truth of an exact builtin object.",
            fast.truth,
            lambda text, expected, obj, env: f"`{text}` was {'true' if expected else 'false'}, no longer is",
        ),
        Kind(
            "SHAPE",
            'A relation of sizes: {"expr": arithmetic over names, "names": {name: [source, size|stride|int, dim]}}. '
            "With `assumed` the trace took it for granted, and the call at hand may not meet it.",
            fast.shape,
            _describe_shape,
        ),
        Kind(
            "ORDER",
            "[keys, order]: a set to which the keys are added gives them in this order. It has no source (-1).",
            lambda scope, source, expected: None,  # hashes don't change while a process lives
            lambda text, expected, obj, env: f"a set of {_show(expected[0])} was in the order {_show(expected[1])}",
        ),
        Kind(
            "GLOBAL",
            "Facts of guards.globalstate, encoded, by name; the guard has no source (-1).",
            fast.global_state,
            _describe_global,
        ),
    )
}
