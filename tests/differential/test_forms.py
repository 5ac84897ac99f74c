"""Programs that break, with continuations in both forms: as functions, and as blocks of hooked functions' own code."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import types
from importlib import util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from differential import CORPUS, corpus, limit, observe, run, same

from aotdyn.hook.loader import HookedSourceLoader

PROGRAMS = {
    "control": (
        *("in_a_for_loop", "in_a_while_loop", "in_nested_loops", "break_and_continue", "loop_with_else", "zip_alive"),
        *("dict_items_alive", "iterator_returned_half_used", "many_breaks_in_a_while_loop", "last_instruction"),
        *("first_instruction", "calls_with_all_kinds_of_arguments", "deletions", "returns_in_the_middle"),
        *("chained_comparison", "unbound_after_break", "if_on_data"),
    ),
    "exceptions": (
        *("in_try", "in_else_and_finally", "in_except", "in_nested_except", "in_finally_with_exception"),
        *("in_finally_with_return", "raised_below_and_caught_above", "raised_by_the_break"),
        *("raised_by_the_break_uncaught", "breaks_in_except_clause", "loop_in_except", "try_in_loop"),
        "context_chain_over_breaks",
    ),
    "with_statements": (
        *("in_with", "with_that_swallows", "nested_withs", "with_in_a_loop"),
        *("noisy_generator_manager", "nested_grad_modes", "exit_stack"),
    ),
    "callees": (
        *("three_deep", "callee_in_a_loop", "callee_with_a_loop", "recursion", "nonlocal_in_a_loop"),
        *("closures_share_a_cell", "argument_is_a_cell", "cell_emptied", "decorated", "methods_with_super"),
        *("properties", "breaks_in_a_generator"),
    ),
    "corner_errors": ("error_in_finally", "nested_handlers_return", "exc_info_in_callees"),
    "corners": (
        *("deep_stack", "keyword_names_on_the_stack", "loop_inside_an_expression", "super_in_a_with_in_a_loop"),
        *("interleaved_iterators", "lifetimes"),
    ),
    "corner_tensors": ("training_steps",),
}
NAMES = [(module, name) for module, found in PROGRAMS.items() for name in found]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AOTDYN_STRICT", "1")
    monkeypatch.setenv("AOTDYN_BACKEND", "eager")


_count = itertools.count()


def executed(name: str, file: str, kind: type[SourceFileLoader]) -> types.ModuleType:
    """A module, executed anew by a loader."""
    loader = kind(name, file)
    spec = util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    made = util.module_from_spec(spec)
    sys.modules[name] = made
    kind.exec_module(loader, made)
    return made


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_as_functions(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTDYN_CONTINUATIONS", "function")
    with limit(60):
        run(functools.partial(corpus, module), name)


def told(module: types.ModuleType, name: str) -> list[Any]:
    """What a program does in three calls: the later ones meet the blocks that the first made known."""
    declared = dataclasses.replace(module.PROGRAMS[name], calls=3)
    return observe(module, declared, declared.function)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_as_blocks(module: str, name: str) -> None:
    own, file = f"aotdyn_{module}_{next(_count)}", str(CORPUS / f"{module}.py")
    with limit(60):
        plain = told(executed(own, file, SourceFileLoader), name)
        made = executed(own, file, HookedSourceLoader)
        before = made.PROGRAMS[name].function.__code__
        same(plain, told(made, name), "hooked")
    del sys.modules[own]
    assert made.PROGRAMS[name].function.__code__ is not before, "no block was put in"
