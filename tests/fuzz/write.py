"""Writes programs from the grammar: every choice is drawn from a `random.Random`, or from hypothesis's own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from random import Random

from hypothesis import strategies as st

from . import grammar, preamble

HOLE = re.compile(r"<(\w+)([.!]?)>")
BLOCK = re.compile(r"( *)<(block|method)([^\n]*)>$")
DEPTH = 2
"How deep blocks lie in each other."


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _blocks(text: str) -> list[list[str]]:
    """Block templates as lists of lines, without the indentation they share."""
    return [[line[4:] for line in part.strip("\n").splitlines()] for part in text.split("----\n")]


class Grammar:
    """The tables of templates: leaves and expressions by kind, statements, blocks; what stands only in some blocks."""

    def __init__(
        self,
        leaves: dict[str, tuple[str, ...]],
        expressions: dict[str, str],
        statements: str,
        blocks: str,
        special: dict[str, str] | None = None,
    ) -> None:
        self.leaves = leaves
        self.expressions = {kind: _lines(text) for kind, text in expressions.items()}
        self.statements = _lines(statements)
        self.blocks = _blocks(blocks)
        self.special = {flag: _lines(text) for flag, text in (special or {}).items()}


IN_BLOCKS = {
    "loop": grammar.IN_LOOP,
    "handler": grammar.IN_HANDLER,
    "def": grammar.IN_FUNCTION,
    "main": grammar.IN_MAIN,
}
PYTHON = Grammar(grammar.LEAVES, grammar.EXPRESSIONS, grammar.STATEMENTS, grammar.BLOCKS, IN_BLOCKS)


class Unfit(Exception):
    """A template that can't be filled where it would stand."""


class Scope:
    """What may be named and done at one place."""

    def __init__(self, names: dict[str, list[str]], flags: frozenset[str] = frozenset()) -> None:
        self.names = names
        self.flags = flags

    def within(self, words: list[str]) -> Scope:
        """The scope of a block: `kind=name` adds a name, other words are flags."""
        names = {kind: list(each) for kind, each in self.names.items()}
        flags = set(self.flags)
        for word in words:
            kind, _, name = word.partition("=")
            if name:
                names.setdefault(kind, []).append(name)
            else:
                flags.add(kind)
        if "def" in words:
            flags -= {"loop", "handler", "main"} - set(words)
        return Scope(names, frozenset(flags))


class Writer:
    """Fills templates. `number` makes names that are used once."""

    def __init__(self, random: Random, grammar: Grammar) -> None:
        self.random = random
        self.grammar = grammar
        self.number = 0

    def choose(self, found: list[str] | tuple[str, ...]) -> str:
        """One of several, each as likely."""
        return found[self.random.randrange(len(found))]

    def module(self, template: str, names: dict[str, list[str]]) -> str:
        """The text of a module: a template, with `names` in the scope of its blocks."""
        return "\n".join([*self.lines(template.splitlines(), Scope(names), DEPTH), ""])

    def lines(self, template: list[str], scope: Scope, depth: int) -> list[str]:
        """A template of several lines, its blocks filled."""
        self.number += 1
        done: list[str] = []
        own = str(self.number)
        for line in template:
            line = line.replace("<n>", own)
            found = BLOCK.match(line)
            if found is None:
                if line.strip() == "<nonlocal>":
                    done += self.nonlocals(line, scope)
                else:
                    done.append(self.filled(line, scope, 2))
                continue
            indent, kind, words = found.groups()
            if kind == "method":
                inner = self.block(Scope({}).within(["def", *words.split()]), 0, self.random.randint(0, 2))
            else:
                inner = self.block(scope.within(words.split()), depth, self.count(words))
            done += [indent + each for each in inner or ["pass"]]
        return done

    def nonlocals(self, line: str, scope: Scope) -> list[str]:
        """The declarations with which a nested function writes what is around it."""
        indent = line[: len(line) - len(line.lstrip())]
        return (
            [f"{indent}global COUNT", f"{indent}{preamble.NONLOCAL}"] if "t0" in scope.names.get("tensor", ()) else []
        )

    def count(self, words: str) -> int:
        """How many statements a block has."""
        return self.random.randint(4, 8) if "main" in words else self.random.randint(1, 3)

    def block(self, scope: Scope, depth: int, count: int) -> list[str]:
        """Some statements."""
        done: list[str] = []
        while count:
            try:
                done += self.statement(scope, depth)
            except Unfit:
                continue
            count -= 1
        return done

    def statement(self, scope: Scope, depth: int) -> list[str]:
        """One statement; Unfit where the template drawn doesn't fit."""
        if depth and self.random.randrange(3) == 0:
            template = self.grammar.blocks[self.random.randrange(len(self.grammar.blocks))]
            return self.lines(template, scope, depth - 1)
        special = [each for flag, found in self.grammar.special.items() if flag in scope.flags for each in found]
        if special and self.random.randrange(8) == 0:
            return [self.filled(self.choose(special), scope, 1)]
        return [self.filled(self.choose(self.grammar.statements), scope, 2)]

    def filled(self, template: str, scope: Scope, depth: int) -> str:
        """A template of one line with its holes filled."""

        def fill(found: re.Match[str]) -> str:
            kind, how = found.groups()
            if how == "!":
                return self.target(kind, scope)
            return self.expression(kind, scope, 0 if how == "." else depth)

        return HOLE.sub(fill, template)

    def target(self, kind: str, scope: Scope) -> str:
        """A name (or attribute) of a kind, to be assigned to."""
        names = scope.names.get(kind)
        if not names:
            raise Unfit
        return self.choose(names)

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        """An expression of a kind, with as many levels of others inside as `depth` says."""
        leaves = self.grammar.leaves.get(kind, ())
        names = scope.names.get(kind, ())
        templates = self.grammar.expressions.get(kind, ())
        simple = kind in ("num", "val", "any")
        deeper = simple or kind in ("bit", "ab") or (depth > 0 and self.random.randrange(2))
        if templates and (deeper or not (names or leaves)):
            text = self.filled(self.choose(templates), scope, depth - (not simple))
            return text if text.isidentifier() or text.isdigit() else f"({text})"
        if names and (self.random.randrange(4) or not leaves):
            return self.choose(names)
        return self.choose(leaves)


def attempts(once: Callable[[], str]) -> str:
    """The first text drawn that is Python's grammar: quotes within quotes aren't, nor `:=` where none may stand."""
    while True:
        text = once()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                compile(text, "<random>", "exec")
        except SyntaxError:
            continue
        return text


def write(random: Random) -> str:
    """The text of a module with one random program."""

    def once() -> str:
        writer = Writer(random, PYTHON)
        calls = random.randint(2, 3)
        arguments = ",\n".join(f"    lambda: {writer.choose(preamble.ARGUMENTS)}" for _ in range(calls))
        main = preamble.MAIN.replace("<arguments>", arguments).replace("<calls>", str(calls))
        text = writer.module(preamble.HEADER, {}) + writer.module(main.replace("<durable>", "True"), preamble.NAMES)
        # A class that a call makes is another class in each process.
        return text.replace("durable=True", "durable=False") if "    class Local" in text else text

    return attempts(once)


def programs() -> st.SearchStrategy[str]:
    """Programs as a hypothesis strategy: it draws what `random.Random` would."""
    return st.builds(write, st.randoms(use_true_random=False))
