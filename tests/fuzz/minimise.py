"""Makes a failing program small: statements and expressions are taken out as long as it fails in the same way."""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .check import Outcome, check


def kind_of(fault: str) -> str:
    """What a fault is, without the numbers that differ from program to program."""
    lines = fault.strip().splitlines() or [""]
    if lines[0].startswith("Traceback"):
        return lines[-1].partition(":")[0]
    return re.sub(r"call \d+|\[.*|\d+", "", lines[0])


def attempt(seed: int, text: str, way: str) -> str:
    """The fault of a program, run in processes of its own with a cache of its own; "" where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = forked(seed, text, Path(folder), "cold")
        if way == "warm" and not outcome.fault:
            outcome = forked(seed, text, Path(folder), "warm")
    return outcome.fault


def forked(seed: int, text: str, folder: Path, way: str) -> Outcome:
    """`check` in a child of this process, which has imported torch already."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.environ |= {"AOTDYN_CACHE_DIR": str(folder / "cache"), "AOTDYN_BACKEND": "eager", "AOTDYN_STRICT": "1"}
        os.environ["AOTDYN_THRIFT"] = "off"
        (folder / "cache").mkdir(mode=0o700, exist_ok=True)
        outcome = check(seed, text, folder, way)
        with os.fdopen(writing, "w") as pipe:
            json.dump(vars(outcome), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return Outcome(**json.loads(told)) if told else Outcome(seed, 0, "the process died")


def minimised(text: str, fails: Callable[[str], bool], seconds: float = 120) -> str:
    """A smaller program that fails, too; the text itself where its form without comments doesn't."""
    end = time.monotonic() + seconds
    tree = ast.parse(text)
    if not fails(ast.unparse(tree)):
        return text
    for changes in (_fewer_statements, _changes):
        smaller = True
        while smaller:
            smaller = False
            number = 0
            while time.monotonic() < end:
                found = _changed(tree, changes, number)
                if found is None:
                    break
                if _compiles(found) and fails(ast.unparse(found)):
                    tree, smaller = found, True
                else:
                    number += 1
    return ast.unparse(tree)


def _compiles(tree: ast.Module) -> bool:
    try:
        compile(ast.unparse(tree), "<smaller>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


Changes = Iterator[Callable[[], None]]


def _changed(tree: ast.Module, changes: Callable[[ast.Module], Changes], number: int) -> ast.Module | None:
    """The tree with the change of a number made; None where there are fewer."""
    whole = copy.deepcopy(tree)
    for count, change in enumerate(changes(whole)):
        if count == number:
            change()
            return whole
    return None


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    """Every list of statements, those of the function that stands last before the others."""
    nodes = [*ast.walk(tree.body[-1]), *ast.walk(tree)] if tree.body else []
    found = [
        body
        for node in nodes
        for name in ("body", "orelse", "finalbody", "handlers", "cases")
        if isinstance(body := getattr(node, name, None), list) and body
    ]
    return list({id(body): body for body in found}.values())


def _fewer_statements(tree: ast.Module) -> Changes:
    """Ways to take out statements that stand together: halves of a block, quarters, and so on."""
    for body in _bodies(tree):
        size = len(body)
        while size:
            for start in range(0, len(body), size):
                yield lambda body=body, start=start, size=size: _cut(body, start, size)  # type: ignore[misc]
            size //= 2


def _changes(tree: ast.Module) -> Changes:
    """Ways to make a tree smaller: statements taken out, then blocks in the place of what holds them, expressions."""
    for body in _bodies(tree):
        for i in range(len(body)):
            yield lambda body=body, i=i: _cut(body, i, 1)  # type: ignore[misc]
    for body in _bodies(tree):
        for i, statement in enumerate(body):
            inner = getattr(statement, "body", None)
            if isinstance(inner, list) and isinstance(statement, ast.stmt):
                yield lambda body=body, i=i, inner=inner: body.__setitem__(slice(i, i + 1), inner)  # type: ignore[misc]
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and not isinstance(value, ast.Constant | ast.Name):
                for child in ast.iter_child_nodes(value):
                    if isinstance(child, ast.expr):
                        yield lambda node=node, name=name, child=child: setattr(node, name, child)  # type: ignore[misc]
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                for i in range(len(value)):
                    yield lambda value=value, i=i: value.pop(i)  # type: ignore[misc]


def _cut(body: list[ast.stmt], start: int, size: int) -> None:
    del body[start : start + size]
    if not body:
        body.append(ast.Pass())
