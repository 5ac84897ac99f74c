"""Every public function, method and attribute of torch is in the graph, known, traced, or breaks as declared."""

from __future__ import annotations

from torch.overrides import get_overridable_functions

from tests.opinfo import surface


def test_what_can_be_overridden_stands_somewhere() -> None:
    unknown = []
    for space, functions in get_overridable_functions().items():
        for fn in functions:
            if surface.standing(fn) == "unknown":
                unknown.append(f"{getattr(space, '__name__', space)}.{getattr(fn, '__name__', fn)} {fn!r}")
    assert not unknown


def test_what_is_public_stands_somewhere() -> None:
    assert [name for name, fn in surface.public() if surface.standing(fn) == "unknown"] == []


def test_most_of_it_is_in_the_graph() -> None:
    found = [surface.standing(fn) for functions in get_overridable_functions().values() for fn in functions]
    assert found.count("graph") > 0.9 * len(found)
    assert found.count("breaks") < 0.05 * len(found)
