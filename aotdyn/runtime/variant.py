"""What tracing makes, storing keeps and binding reads: one variant of one frame, as data.

Everything here decodes by schema from MessagePack and refers to live objects
only through sources, so that it means the same in every process.

Annotations are evaluated as the classes are made (no `__future__` import): else
msgspec compiles each string, which takes twice the time of the rest.
"""

from typing import Any

import msgspec


class FrameSpec(msgspec.Struct, frozen=True):
    """Where a frame starts, and what its dispatcher is handed.

    `offset` is the byte offset of the first instruction to run in the original
    code (0: the function's start). The dispatcher's arguments are the values
    of `params`, the values of the `v` slots of `stack`, and the cells named by
    `cells` (cellvars, then freevars). At the start of a function `params` are
    its parameters in `co_varnames` order; a parameter that is a cell is handed
    by value there, and its cell comes in `cells` as well.
    """

    module: str
    qualname: str
    digest: str
    offset: int = 0
    params: tuple[str, ...] = ()
    stack: str = ""
    cells: tuple[str, ...] = ()

    @property
    def arity(self) -> int:
        """Number of arguments of the dispatcher."""
        return len(self.params) + self.stack.count("v") + len(self.cells)


class ResumePoint(msgspec.Struct, frozen=True):
    """How a frame goes on behind a break.

    `frame` describes the state before the broken operation, whose
    instructions span `frame.offset` to `end`; `exits` describes what follows
    it. With `inner`, the operation is a CALL whose callee is the next inner
    frame's continuation: callee and arguments aren't on the stack any more,
    and the state holds the inner `(state, continuation)` instead.
    """

    name: str
    frame: FrameSpec
    end: int
    inner: bool
    exits: tuple[FrameSpec, ...]
    code: bytes = b""
    "marshalled code of the continuation function"
    origin: bytes = b""
    "marshalled original code, for tracing what follows when no variant fits"
    globals: int = -1
    "index of the source that reaches the frame's globals; -1: the entry's own"


class SourceData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row of a variant's source table: a step from `base` (an earlier row's index, -1 for a root)."""

    kind: str
    base: int = -1
    key: Any = None


class GuardData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A fact: `kind` of guards.kinds holds of the object at `source`, with `expected` as data.

    `place` says which of the variant's `places` asked for it first; -1: none that is known.
    """

    source: int
    kind: str
    expected: Any = None
    place: int = -1


class Instruction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of an epilogue: see docs/design/epilogue.md for the set.

    `dest` is the register written, -1 where none is. `args` holds registers,
    names and encoded constants, as the operation says.
    """

    op: str
    dest: int = -1
    args: tuple[Any, ...] = ()


class Recipe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How binding fills one cell of the generated code's pool: an operation of runtime.binding and its data."""

    op: str
    args: tuple[Any, ...] = ()


class Inlined(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A function whose code the trace went through."""

    module: str
    qualname: str
    digest: str


class BreakInfo(msgspec.Struct, frozen=True):
    """Why a graph ended, for reports."""

    function: str
    file: str
    line: int
    reason: str
    hint: str = ""


class Variant(msgspec.Struct):
    """One captured path through one frame: guards, graph, epilogue."""

    spec: FrameSpec
    sources: list[SourceData]
    guards: list[GuardData]
    inputs: list[int]
    "source indices of the graph's inputs, in order"
    graph: str | None
    "key of the graph, None where no operation was captured"
    epilogue: list[Instruction]
    resumes: list[ResumePoint] = []
    inlined: list[Inlined] = []
    breaks: list[BreakInfo] = []
    leave: str = ""
    "reason to leave the frame to Python where these guards hold; empty: run the graph"
    verdict: bool = False
    "`leave` is said of the whole function, whatever its arguments: the hook's policy, which no guard rests on"
    seconds: float = 0.0
    "where tracing took so long and didn't end: it may be tried again where there is more time"
    postponed: int = 0
    "how the hook's policy has put the function off: 1 in the first process that met it, 2 in a later one as well"
    poor: int = 0
    "so many traces of the function were poor until now, and none was rich: it isn't left to Python yet"
    made_up: bool = False
    "a process that made up for another has stored it: later ones don't"
    gives_way: bool = False
    "where the graph raises, it has changed nothing: the body may run instead"
    redraws: bool = False
    "before it does, the random generators are set back to where the graph found them"
    watched: list[int] = []
    "source indices of the inputs that the graph writes to: where it raises and none was written to, the body may run"
    callees: list[int] = []
    "source indices of functions that Python calls where the trace ended"
    draws: list[int] = []
    "source indices of the random numbers that are drawn behind the guards, in order"
    moving: list[tuple[int, list[int]]] = []
    "sizes known to vary, for the next trace: a source's index and its dimensions (none: the int itself)"
    restless: list[list[SourceData]] = []
    "what was seen to change on one and the same module: the rows of each source, itself the last"
    handed: list[tuple[Inlined, str, int]] = []
    "arguments of a `forward` that come from outside: the function, the parameter, the source's index"
    places: list[tuple[str, int]] = []
    "lines of the program that asked for guards: file and number"
    rest: bool = False
    "what the recompile limit decided: it stands behind all other variants"
    thrifty: bool = False
    "it was thrift that decided so: it ends where there is none"
    operations: int = 0
    eager_operations: int = 0
    instructions: int = 0
    "of Python's that were traced: what a call saves"
    weighed: str = ""
    "the backend under which a verdict was given since calls cost more than they save: under others it doesn't hold"
    pays: bool = False
    "the verdict: under that backend the function's calls were weighed and save more than they cost"
    own: int = 0
    "operations that were met outside of inlined functions which are hooked themselves"
    shares: list[tuple[int, int, int]] = []
    "such functions: their index in `inlined`, how often each was called, and the operations that were its own"
    code: bytes = b""
    "marshalled code of the lowered prologue and epilogue"
    pool: list[Recipe] = []
    process_local: list[str] = []
    "facts without a durable form; when there are any, the variant is never stored"
    prepares: bool = False
    "the body, left to Python, makes ready what the next call captures: no breach of fullgraph"
    locals: Any = None
    "objects behind `local` sources and recipes; None in a stored variant"
