"""What a program says by aotdyn's own functions holds in a process where the hook alone has loaded aotdyn."""

from __future__ import annotations

from typing import Any

APP = """
    import torch
    import aotdyn

    def f(x):
        x = x + 1
        aotdyn.graph_break()
        return x * 2, aotdyn.is_compiling()

    f(torch.ones(2))
    print([each["reason"] for each in aotdyn.stats()["graph_breaks"]])
"""


def test_graph_break(project: Any) -> None:
    project.write("app.py", APP)
    done = project.run("--backend", "eager", "app.py")
    assert (done.returncode, done.stdout) == (0, "['explicit graph break']\n"), done.stderr
