"""Writes `docs/coverage.md` from the tracer's own tables: `python docs/coverage.py`; `--check` compares."""

from __future__ import annotations

import ast
import dis
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import aotdyn.trace.api  # noqa: F401  fills the tables
from aotdyn.report import advice
from aotdyn.trace import handlers
from aotdyn.trace.opcodes.table import BREAKS, OPCODES
from tests.opinfo import surface
from tests.opinfo.exceptions import BREAKS as BREAKING
from tests.opinfo.exceptions import DIFFERS

HERE = Path(__file__).resolve().parent
PAGE = HERE / "coverage.md"
TRACER = HERE.parent / "aotdyn" / "trace"
RAISING = {"Break": 0, "graph_break": 0, "leave": 0}
"Calls whose first argument is a reason to break."
BACKENDS = HERE.parent / "aotdyn" / "backends"
REFUSING = {"Unsuitable": 0}
"Calls whose first argument says why a graph has no stored kernel."

HEAD = """\
# What is captured, and what breaks

Made from the tracer's tables by `python docs/coverage.py`; don't edit.

Where the tracer breaks, Python runs that one operation, and what follows is captured in its turn. `python -m aotdyn
explain app.py` says where a program breaks, and why.
"""


def main(argv: list[str]) -> int:
    """Write the page, or with `--check` say whether it is current."""
    text = page()
    if "--check" in argv:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """The page's text."""
    return "\n".join(
        [HEAD, *_opcodes(), *_operators(), *_callables(), *_reasons(), *_kernels(), *_differences(), *_reports()]
    )


def _opcodes() -> Iterator[str]:
    known = [name for name in dis.opmap if name in OPCODES]
    yield "## Opcodes of CPython 3.11\n"
    yield f"{len(known) - len(BREAKS)} are executed, {len(BREAKS)} always break:\n"
    yield "| opcode | reason |\n|---|---|"
    for name, reason in sorted(BREAKS.items()):
        yield f"| `{name}` | {reason} |"
    yield "\nExecuted: " + ", ".join(f"`{name}`" for name in sorted(set(known) - set(BREAKS))) + "\n"


def _operators() -> Iterator[str]:
    yield "## Operators of torch\n"
    yield "Public functions and methods of torch go into the graph as one call each, or are traced into; what a tensor"
    yield "says of itself is known. `python -m tests.opinfo` runs each operator that torch has samples for, compiled"
    yield "and plain. With some of their samples these break:\n"
    yield "| operator | reason |\n|---|---|"
    yield from (f"| `{name}` | {reason} |" for name, reason in sorted(BREAKING.items()))
    if DIFFERS:
        yield "\nNot quite as plain torch:\n\n| operator | how |\n|---|---|"
        yield from (f"| `{name}` | {how} |" for name, how in sorted(DIFFERS.items()))
    yield "\nThese functions, methods and attributes break, but where what they tell is known all the same:\n"
    groups = defaultdict(set)
    for name, reason in surface.declared_breaks():
        groups[reason].add(name)
    yield from (
        f"- {reason}: " + ", ".join(f"`{name}`" for name in sorted(groups[reason])) for reason in sorted(groups)
    )
    yield ""


def _callables() -> Iterator[str]:
    yield "## Callables known by themselves\n"
    yield "Other functions written in Python are traced into; others written in C break.\n"
    for title, table in (
        ("Handlers: what they mean is known to the tracer", handlers.HANDLERS),
        ("Polyfills: traced into as Python that means the same", handlers.POLYFILLS),
        ("Folded: computed while tracing where all arguments are constants", handlers.FOLDABLE),
    ):
        yield f"### {title}\n"
        groups = defaultdict(set)
        for each in table:
            module, name = _name(each)
            groups[module].add(name)
        for module in sorted(groups):
            yield f"- {module}: " + ", ".join(f"`{name}`" for name in sorted(groups[module]))
        yield ""


def _differences() -> Iterator[str]:
    """The paragraphs of `differences.txt`: indented lines name tests."""
    yield "## Other than TorchDynamo\n"
    paragraphs = (HERE / "differences.txt").read_text(encoding="utf-8").split("\n\n")[1:]
    for paragraph in paragraphs:
        lines = paragraph.strip("\n").split("\n")
        text = " ".join(line for line in lines if not line.startswith(" "))
        shown = [line.strip().split(": ") for line in lines if line.startswith(" ")]
        named = "; ".join(f"{file}: " + ", ".join(f"`{each}`" for each in tests.split()) for file, tests in shown)
        yield f"- {text} ({named})"
    yield ""


def _reports() -> Iterator[str]:
    """The lines of `reports.txt` as a table."""
    yield "## Programs from public bug reports\n"
    yield "Each gives what plain Python gives: compiled, in a second process, and under the hook.\n"
    yield "| what the program relies on | here | TorchDynamo 2.13 |"
    yield "|---|---|---|"
    for line in (HERE / "reports.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield f"| {line} |"
    yield ""


def _name(obj: Any) -> tuple[str, str]:
    owner = getattr(obj, "__objclass__", None)
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__qualname__
    module = getattr(owner or obj, "__module__", None) or getattr(type(obj), "__module__", "")
    if isinstance(obj, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
        return "torch.ops", str(obj)
    return str(module), str(name)


def _reasons() -> Iterator[str]:
    yield "## Reasons of breaks\n"
    yield "Each with what it means and what may be done about it, as `explain` says it.\n"
    groups: dict[str, set[str]] = {text: set() for text, _ in advice.ADVICE}
    for path in sorted(TRACER.rglob("*.py")):
        for reason in _raised(ast.parse(path.read_text(encoding="utf-8")), RAISING):
            groups[advice.of(reason)].add(f"{reason} ({path.relative_to(TRACER)})")
    for text, reasons in groups.items():
        if reasons:
            yield f"- {text}"
            yield from (f"    - {reason}" for reason in sorted(reasons))
    yield ""


def _kernels() -> Iterator[str]:
    yield "## Graphs without a stored kernel\n"
    yield "Under `inductor` they run eagerly; where gradients alone stand in the way, inductor's ordinary path compiles"
    yield 'them in each process, and they count as `graphs_compiled_each_time` (with `compile="background"` they run'
    yield "eagerly as well). Reasons:\n"
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in BACKENDS.glob("*.py")]
    yield from (f"- {reason}" for reason in sorted({reason for tree in trees for reason in _raised(tree, REFUSING)}))
    yield ""


def _raised(tree: ast.Module, calls: dict[str, int]) -> Iterator[str]:
    names = {
        target.id: str(each.value.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in calls and node.args:
            text = _text(node.args[0], names)
            if text.strip("… "):
                yield text


def _text(node: ast.expr, names: dict[str, str]) -> str:
    """A literal's text, with … for what is filled in; `names` are the module's constants."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, names)
    return names.get(node.id, "…") if isinstance(node, ast.Name) else "…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
