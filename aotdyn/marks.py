"""What user code has said of its functions, kept where neither the tracer nor torch has to be loaded to say it."""

from __future__ import annotations

from typing import Any

IN_GRAPH: set[Any] = set()
"Functions that go into the graph as they are (`allow_in_graph`)."
