"""Stubs that are kept as patches: the same stub, for every code of one digest, wherever it stands."""

from __future__ import annotations

import dis

import pytest

from aotdyn.rewrite import names, patches, stubs
from tests.rewrite.samples import CASES


class Kept(dict):
    """A store's part for rewritten code."""

    def module(self, key):
        return self.get(key)

    save_module = dict.__setitem__


def elsewhere(code):
    """The same code in another file, further down."""
    consts = tuple(elsewhere(each) if hasattr(each, "co_code") else each for each in code.co_consts)
    return code.replace(co_filename="other.py", co_firstlineno=code.co_firstlineno + 7, co_consts=consts)


def shown(code):
    """All that a stub is."""
    return (
        code,
        list(code.co_positions()),
        dis._parse_exception_table(code),
        code.co_stacksize,
        code.co_names,
        code.co_filename,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_a_kept_patch_makes_the_stub_that_would_be_made(case):
    code, kept = case[0].__code__, Kept()
    first = patches.Stubbing(code, "m", kept)
    reason = first.obstacle()
    assert reason == stubs.eligible(code)
    if reason:
        return
    assert shown(first.stub("__aotdyn_d_one")) == shown(stubs.stub(code, "__aotdyn_d_one"))
    moved = elsewhere(code)
    second = patches.Stubbing(moved, "m", kept)
    assert second.patch is not None
    assert second.obstacle() == ""
    assert shown(second.stub("__aotdyn_d_two")) == shown(stubs.stub(moved, "__aotdyn_d_two"))
    assert patches.Stubbing(code, "another", kept).patch is None
    kept[second.key] = b"no patch"
    assert patches.Stubbing(code, "m", kept).patch is None


def test_a_patch_is_of_one_form_of_stubs(monkeypatch):
    code, kept = CASES[0][0].__code__, Kept()
    patches.Stubbing(code, "m", kept).stub("__aotdyn_d_one")
    assert patches.Stubbing(code, "m", kept).patch is not None
    monkeypatch.setattr(names, "FORM", names.FORM + 1)
    assert patches.Stubbing(code, "m", kept).patch is None
