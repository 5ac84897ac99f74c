"""One line of a helper changes: what inlined it is traced again, and nothing else; changed back, all is warm."""

from __future__ import annotations

import json
import textwrap
from typing import Any

APP = """
    import torch
    from helpers import scale

    def first(x):
        return scale(x) + 1

    def second(x):
        return first(x).sin()

    def apart(x):
        return x.cos() * 3

    if __name__ == "__main__":
        x = torch.arange(4.0)
        print(second(x).tolist(), apart(x).tolist(), first(x).tolist())
"""
HELPERS = "def scale(x):\n    return x * {}\n"


def run(project: Any) -> tuple[str, list[str]]:
    """Output, and what was traced."""
    done = project.run("--backend", "eager", "--require-warm", "--stats", "s.json", "app.py")
    assert done.returncode in (0, 3), done.stderr
    listed = [line.strip() for line in done.stderr.splitlines() if line.startswith("  ") and "hint:" not in line]
    assert len(listed) == json.loads((project.folder / "s.json").read_text())["traced"], done.stderr
    return done.stdout, sorted(each.rpartition(".")[2] for each in listed)


def test_edit_of_an_inlined_helper(project: Any) -> None:
    project.write("app.py", APP)
    project.write("helpers.py", HELPERS.format(2))
    before, traced = run(project)
    assert traced == ["apart", "first", "second"]
    assert before == project.python("app.py").stdout
    assert run(project) == (before, [])
    project.write("helpers.py", HELPERS.format(-5))
    after, traced = run(project)
    assert traced == ["first", "second"]
    assert after == project.python("app.py").stdout != before
    assert run(project) == (after, [])
    project.write("helpers.py", HELPERS.format(2))
    assert run(project) == (before, [])
    project.write("helpers.py", "# moved down by a line\n" + HELPERS.format(2))
    assert run(project) == (before, [])


BREAKS = """
    import traceback
    import torch
    from breaking import outer

    for text in ("1", "q", "q"):
        try:
            print(outer(torch.ones(2), text))
        except ValueError as error:
            print([(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)])
"""
BREAKING = """
    def inner(x, text):
        y = x + 1
        print(end="")
        y = y * int(text)
        return (lambda: y)()

    def outer(x, text):
        x = x * 2
        print(end="")
        return inner(x, text) - 1
"""


def test_lines_of_stored_continuations(project: Any) -> None:
    """Code that goes on behind a break stands where the source has it now."""
    project.write("app.py", BREAKS)
    for above in ("", "# moved down by a line\n", "# and\n# once\n# more\n"):
        project.write("breaking.py", above + textwrap.dedent(BREAKING))
        plain = project.python("app.py")
        done = project.run("--backend", "eager", "app.py")
        assert (done.stdout, done.returncode) == (plain.stdout, 0), done.stderr


def test_logs(project: Any) -> None:
    project.write("app.py", APP + "        print(second(torch.ones(2, dtype=torch.float64)))\n")
    project.write("helpers.py", HELPERS.format(2))
    done = project.run("--backend", "eager", "app.py", env={"AOTDYN_LOG": "guards,recompiles"})
    assert done.returncode == 0, done.stderr
    assert "aotdyn.guards: second\n" in done.stderr
    assert "scale: FUNCTION ['helpers', 'scale'," in done.stderr
    assert "aotdyn.recompiles: second is traced again: `x.dtype` was float32, is float64" in done.stderr
