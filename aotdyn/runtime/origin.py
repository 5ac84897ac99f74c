"""What `compile(f)` made follows `f`: code and defaults that are set on `f` later hold for it as well."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from aotdyn.runtime.entry import Entry

Kept = tuple[types.CodeType, Any, Any]


class Follower:
    """Stands between the stub of `made` and its entry's dispatcher, and sees whether `function` is as it was.

    `renew` gives `made` the code of `function` as it is now, behind a new entry; without one where it can't be a stub.
    """

    def __init__(
        self, function: types.FunctionType, made: types.FunctionType, entry: Entry, renew: Callable[[], Entry | None]
    ) -> None:
        self.function = function
        self.made = weakref.ref(made)  # what made it keeps us, and not we it: see `cold.gone`
        self.renew = renew
        self.kept = self._now()
        self.follow(entry)

    def follow(self, entry: Entry) -> None:
        """Publish what `entry` answers through a check of the function."""
        self.entry = entry
        entry.publish_by(self._checked)

    def _now(self) -> Kept:
        return self.function.__code__, self.function.__defaults__, self.function.__kwdefaults__

    def _checked(self, dispatcher: Callable[..., Any]) -> Callable[..., Any]:
        names = ", ".join(f"a{i}" for i in range(self.entry.spec.arity))
        text = (
            f"def checked({names}):\n"
            f"    if __aotdyn_dynamo(): return None\n"
            f"    if f.__code__ is code and f.__defaults__ is defaults and f.__kwdefaults__ is keywords:\n"
            f"        return dispatcher({names})\n"
            f"    return changed({names})\n"
        )
        code, defaults, keywords = self.kept
        space = {"f": self.function, "code": code, "defaults": defaults, "keywords": keywords}
        space.update(dispatcher=dispatcher, changed=self.changed)
        exec(compile(text, __file__, "exec"), space)
        return space["checked"]  # type: ignore[return-value]

    def changed(self, *args: Any) -> Any:
        """The function has changed since the last call: what `made` was given goes to it once, and `made` follows.

        Arguments that are the old defaults are taken as left out.
        """
        from aotdyn.rewrite import originals

        before, self.kept = self.kept, self._now()
        same_code = originals.original(before[0]) is originals.original(self.kept[0])
        if same_code and before[1:] == self.kept[1:]:
            self.entry.install()  # a stub was put in place, which is no change
            return self.entry.dispatcher(*args)
        made = self.made()
        if made is not None:
            made.__defaults__, made.__kwdefaults__ = self.kept[1:]
        if same_code:
            self.entry.install()
        else:
            renewed = self.renew()
            if renewed is not None:
                self.follow(renewed)
        positional, keywords = _as_given(originals.original(before[0]), before, args)
        return self.function(*positional, **keywords), None


def _as_given(code: types.CodeType, before: Kept, args: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a call, from the values of all parameters."""
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    defaults = before[1] or ()
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    left_out = False
    for i in range(count):
        default = i - (count - len(defaults))
        if default >= 0 and args[i] is defaults[default] and i >= code.co_posonlyargcount:
            left_out = True
        elif left_out:
            keywords[names[i]] = args[i]
        else:
            positional.append(args[i])
    for i in range(count, count + only):
        if args[i] is not (before[2] or {}).get(names[i], args):
            keywords[names[i]] = args[i]
    rest = count + only
    if code.co_flags & 0x4:
        positional += args[rest]
        rest += 1
    if code.co_flags & 0x8:
        keywords.update(args[rest])
    return positional, keywords
