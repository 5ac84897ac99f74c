"""Options: defaults < [tool.aotdyn] in pyproject.toml < torch._dynamo.config where loaded < AOTDYN_* < arguments.

`current()` answers with all layers merged; `configure()` sets the topmost for
the process, `overrides()` for a `with` block. May import: the standard
library, msgspec, `aotdyn.errors`, `aotdyn.project`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from aotdyn.errors import ConfigError

LOGS = ("guards", "recompiles", "breaks", "graphs", "cache", "hook", "trace", "all")
"What AOTDYN_LOG may name."


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `[[tool.aotdyn.shapes]]`: a size that varies, told beforehand for code that has no marks."""

    function: str
    "`module:qualname`, as `app.model:Net.forward`; of the program itself `__main__:main`"
    argument: str
    dimension: int | None = None
    "of a tensor; left out for an argument that is an int"
    min: int | None = None
    max: int | None = None


class Options(msgspec.Struct, frozen=True):
    """Everything that can be set; a field's name is its key in pyproject.toml, AOTDYN_<NAME> its variable."""

    cache_dir: str = ""
    "folder of the store; empty: the user's cache folder"
    cache: bool = True
    "whether the store is used at all"
    cache_trust: bool = False
    "use a cache that other users can write to; not from pyproject.toml"
    cache_sign: bool = False
    "sign what is stored, and read only what is signed by a key that is trusted; not from pyproject.toml"
    cache_keys: str = ""
    "folder of the keys; empty: aotdyn/keys in the user's configuration folder; not from pyproject.toml"
    cache_remote: str = ""
    "URL of a second, shared cache, as fsspec takes it (s3://bucket/folder); not from pyproject.toml"
    cache_remote_timeout: float = 2.0
    "seconds that a process may lose by a remote cache that is down or slow"
    cache_limit: int = 4096
    "MiB that the store may take: past them what wasn't used for longest goes"
    claim_seconds: float = 60.0
    "how long a process waits for another that compiles the same graph, before it does so itself"
    backend: str = ""
    "name of the backend; empty: inductor where a C++ compiler is found, else eager"
    compile: str = ""
    "`background`: a graph runs eagerly until a worker has compiled it; `now`: its first call waits (the default but"
    " under `run`)"
    choose: str = "measured"
    "`measured`: a few calls by a new kernel and without it tell which way is the faster; `always`: by the kernel"
    jobs: int = 0
    "processes that compile in the background; 0: half of the processors"
    compile_timeout: float = 900.0
    "seconds that one graph may take to compile in the background"
    exit_wait: float = 60.0
    "seconds that a program waits at its end for kernels that are being compiled"
    mode: str = ""
    "inductor's preset where a `compile()` names none: `default` or `max-autotune`"
    options: tuple[str, ...] = ()
    "inductor's options, each `name=value`"
    freeze: bool = False
    "fold parameters into kernels as constants, where no gradient is recorded: each call compares what they hold"
    packages: tuple[str, ...] = ()
    "modules to hook: `pkg` (with all below it), `pkg.*`, `*`"
    exclude: tuple[str, ...] = ()
    "modules not to hook, in the same form"
    recompile_limit: int = 8
    "variants a function may have; past it the original body runs"
    accumulated_recompile_limit: int = 256
    "variants a code object may have over all its receivers"
    fail_on_recompile_limit_hit: bool = False
    error_on_recompile: bool = False
    capture_scalar_outputs: bool = False
    "keep `.item()` in the graph instead of breaking"
    capture_dynamic_output_shape_ops: bool = False
    "keep operators like `nonzero` in the graph instead of breaking"
    trace_numpy: str = "compile"
    "whether numpy's functions are captured as operations of torch: in `compile` alone, `always` or `never`"
    specialize_int: bool = False
    "an int input that changes makes a new variant each time, never a dynamic one"
    specialize_float: bool = False
    assume_static_by_default: bool = True
    "a size is dynamic only after it has been seen to change"
    automatic_dynamic_shapes: bool = True
    "a size that has been seen to change is dynamic from then on"
    max_instructions: int = 2_000_000
    "bounds of one traced frame, with what it inlines: instructions,"
    max_nodes: int = 20_000
    "graph nodes,"
    max_unrolled: int = 4_000
    "iterations of one loop,"
    max_seconds: float = 300.0
    "seconds"
    shapes: tuple[Shape, ...] = ()
    "sizes that vary, from pyproject.toml or `configure` alone: a table of function, argument, dimension, min, max"
    thrift: str = "packages"
    "what is traced only once it is worth it: functions of `packages` that are hooked by name, of `all`, or `off`"
    thrift_calls: int = 3
    "calls with tensors after which a function under thrift is traced"
    thrift_share: float = 0.25
    "part of the program's time that tracing and loading may take of functions under thrift"
    thrift_kernels: int = 1_000
    "operators that calls of a graph of a package's have to run in one process until a kernel is compiled for it"
    continuations: str = "block"
    "how a frame goes on behind a break: `block`, in its own code, or `function`, in frames of functions put in for it"
    compiling_flag: bool = True
    "whether is_compiling() and its twins are true in traced code"
    keep_torch_compile: bool = False
    "under `run`: leave calls of torch.compile to torch"
    freeze_imports: bool = True
    "leave what a program's first imports made out of garbage collections, so that they and the end take less time"
    strict: bool = False
    "raise where aotdyn itself fails, instead of a warning and the original code"
    disable: bool = False
    "turn all off"
    log: tuple[str, ...] = ()
    "what to log, see LOGS"

    def inductor(self) -> dict[str, Any]:
        """Inductor's options that `mode` and `options` stand for.

        Raises:
            ConfigError: one isn't `name=value`.
        """
        found: dict[str, Any] = {"max_autotune": True} if self.mode == "max-autotune" else {}
        for item in self.options:
            name, equals, value = item.partition("=")
            if not equals or not name.strip():
                raise ConfigError(f"{item!r} isn't an option of inductor's", hint="write it as name=value")
            found[name.strip().replace("-", "_")] = _literal(value.strip())
        return found

    def tracing_key(self) -> str:
        """Digest of the options that change tracing: the store's key has it."""
        return _tracing_key(self)


TRACING = (
    "recompile_limit",
    "accumulated_recompile_limit",
    "fail_on_recompile_limit_hit",
    "error_on_recompile",
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "specialize_int",
    "specialize_float",
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "max_instructions",
    "max_nodes",
    "max_unrolled",
    "max_seconds",
    "compiling_flag",
    "trace_numpy",
)
"Options that change what tracing makes: they are part of the store's key."

_FROM_TORCH = TRACING[:10]
"Keys read from torch._dynamo.config, which has them under the same names and with the same defaults."

_DEFAULTS = Options()
_TYPES = {name: type(getattr(_DEFAULTS, name)) for name in Options.__struct_fields__}
_VARIABLES = {f"AOTDYN_{name.upper()}": name for name in _TYPES if name != "shapes"}
_encode = getattr(os.environ, "encodekey", None)
_ENCODED = tuple(map(_encode, _VARIABLES)) if _encode is not None else ()
"The variables' names as `os.environ` keeps them."
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_WORDS[""] = False
_NOT_FROM_PROJECT = ("cache_trust", "cache_sign", "cache_keys", "cache_remote")

_arguments: dict[str, Any] = {}
_project_start: Path | None = None
_project: dict[str, Any] | None = None
_memo: tuple[Any, Options] | None = None


def current() -> Options:
    """The options as they are now, all layers merged.

    Raises:
        ConfigError: a layer has an unknown key or a wrong value.
    """
    global _memo
    environment = _environment()
    torch_layer = _torch_layer()
    key = (environment, tuple(torch_layer.items()))
    if _memo is not None and _memo[0] == key:
        return _memo[1]
    above = {**torch_layer, **_environment_layer(), **_arguments}
    _memo = (key, Options(**{**_project_layer(above), **above}))
    return _memo[1]


def _environment() -> tuple[Any, ...]:
    """What the variables hold, in whatever form: compared at each `current()`, so it must take no time.

    CPython's `os.environ` encodes a name at each look, and keeps the encoded ones in a dict, which is asked instead.
    """
    held = getattr(os.environ, "_data", None)
    if type(held) is dict and _ENCODED:
        return tuple(map(held.get, _ENCODED))
    return tuple(map(os.environ.get, _VARIABLES))


def configure(**arguments: Any) -> None:
    """Set options for this process, above every other layer; None takes a setting back.

    Raises:
        ConfigError: unknown key or wrong value.
    """
    global _memo
    checked = {name: _checked(name, value, "argument") for name, value in arguments.items() if value is not None}
    for name in arguments:
        _known(name, "argument")
        _arguments.pop(name, None)
    _arguments.update(checked)
    _memo = None


def check(name: str, value: Any) -> None:
    """Refuse what an option can't be.

    Raises:
        ConfigError: says what is allowed.
    """
    _checked(name, value, "argument")


@contextlib.contextmanager
def overrides(**arguments: Any) -> Iterator[Options]:
    """`configure` for a `with` block, process-wide."""
    global _memo
    before = dict(_arguments)
    configure(**arguments)
    try:
        yield current()
    finally:
        _arguments.clear()
        _arguments.update(before)
        _memo = None


def use_project(start: str | os.PathLike[str] | None) -> None:
    """Look for pyproject.toml from the folder `start` upwards, then from the working directory; None: the latter."""
    global _project_start, _project, _memo
    _project_start = None if start is None else Path(start).absolute()
    _project = _memo = None


def reset() -> None:
    """Forget `configure` and `use_project`; files are read again."""
    _arguments.clear()
    use_project(None)


def options_key(options: Options) -> str:
    """Digest of the options that change tracing, 16 hex digits; empty where all are the defaults."""
    return options.tracing_key()


@lru_cache(maxsize=256)
def _tracing_key(options: Options) -> str:
    changed = [(name, getattr(options, name)) for name in TRACING if getattr(options, name) != getattr(_DEFAULTS, name)]
    return blake2b(repr(changed).encode(), digest_size=8).hexdigest() if changed else ""


def cache_root() -> Path | None:
    """Absolute path of the store's folder, which need not exist; None: nothing is kept."""
    options = current()
    if not options.cache:
        return None
    if options.cache_dir:
        return Path(options.cache_dir).expanduser().absolute()
    from aotdyn.store.environment import default_dir

    return default_dir()


def default_backend() -> str:
    """The backend where none is named: inductor where a C++ compiler is found, else eager with one log line."""
    if cxx_compiler():
        return "inductor"
    _say_no_compiler()
    return "eager"


@lru_cache(maxsize=1)
def _say_no_compiler() -> None:
    logging.getLogger("aotdyn.backends").warning(
        "aotdyn: no C++ compiler is found, so graphs run in the backend `eager`; install g++ or set CXX for `inductor`"
    )


@lru_cache(maxsize=1)
def cxx_compiler() -> str:
    """Path of the C++ compiler that inductor would use; empty where there is none."""
    import shutil

    named = os.environ.get("CXX")
    for name in [named.split()[0]] if named and named.strip() else ["g++", "c++", "clang++"]:
        if found := shutil.which(name):
            return found
    return ""


def _project_layer(above: dict[str, Any]) -> dict[str, Any]:
    """What the nearest pyproject.toml says, read once; `above` says which cache may have noted it."""
    global _project
    if _project is None:
        from aotdyn import project

        cache = _noting(above)
        found = project.nearest(_project_start, cache) if _project_start else None
        if found is None:
            with contextlib.suppress(OSError):
                found = project.nearest(Path.cwd(), cache)
        _project = {} if found is None else _of_project(*found)
    return _project


def _noting(above: dict[str, Any]) -> str | None:
    """Root of the cache that notes what a pyproject.toml says, which may name another: that of the layers above it.

    None where they want no cache, or none but of what is signed.
    """
    if above.get("disable") or above.get("cache_sign") or not above.get("cache", True):
        return None
    from aotdyn.store.environment import user_cache_dir

    return str(above.get("cache_dir") or user_cache_dir() or "") or None


def _of_project(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in _NOT_FROM_PROJECT:
            raise ConfigError(
                f"{key} can't be set in a pyproject.toml",
                where=f"[tool.aotdyn] in {path}",
                hint=f"set AOTDYN_{name.upper()} in the environment of those who want it",
            )
        values[name] = _checked(name, value, f"[tool.aotdyn] in {path}")
    if values.get("cache_dir"):
        values["cache_dir"] = str(path.parent / Path(values["cache_dir"]).expanduser())
    return values


def _environment_layer() -> dict[str, Any]:
    values = {}
    for variable, name in _VARIABLES.items():
        text = os.environ.get(variable)
        if text is not None and (text or _TYPES[name] is bool):
            values[name] = _checked(name, text, f"environment variable {variable}", key=variable)
    if values.get("cache_dir"):
        values["cache_dir"] = str(Path(values["cache_dir"]).expanduser().absolute())
    return values


@lru_cache(maxsize=1)
def check_variables() -> None:
    """Warn, once, of variables of the environment that begin as ours do and are none."""
    unknown = [name for name in os.environ if name.startswith("AOTDYN_") and name not in (*_VARIABLES, *_OTHERS)]
    if not unknown:
        return
    import difflib

    told = []
    for name in sorted(unknown):
        near = difflib.get_close_matches(name, _VARIABLES, 1, 0.0)
        told.append(f"{name} (did you mean {near[0]}?)")
    logging.getLogger("aotdyn").warning("aotdyn: there is no option %s: it has no effect", ", ".join(told))


_OTHERS = ("AOTDYN_FULL",)
"Variables that aotdyn's own tests read."


def _torch_layer() -> Mapping[str, Any]:
    module = sys.modules.get("torch._dynamo.config")
    if module is None:
        return {}
    values = {}
    for name in _FROM_TORCH:
        value = getattr(module, name, None)
        if value is not None and value != getattr(_DEFAULTS, name) and type(value) is _TYPES[name]:
            values[name] = value
    return values


def _known(name: str, origin: str) -> type:
    try:
        return _TYPES[name]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(name, _TYPES, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(_TYPES))}"
        raise ConfigError(f"unknown option {name!r}", where=origin, hint=hint) from None


def _checked(name: str, value: Any, origin: str, key: str = "") -> Any:
    kind = _known(name, origin)
    if name == "shapes":
        return _to_shapes(value, origin)
    try:
        made = _CONVERT[kind](value)
        _check_range(name, made)
        return made
    except (ValueError, TypeError, OverflowError):
        raise ConfigError(
            f"{key or name} is {value!r}; allowed: {_allowed(name, kind)}", where=origin, hint="change or remove it"
        ) from None


def _check_range(name: str, value: Any) -> None:
    if type(value) in (int, float) and not (value >= 0 if name in _MAY_BE_0 else value > 0):
        raise ValueError
    if name == "log" and not set(value) <= set(LOGS):
        raise ValueError
    if name in _WORDS_OF and value not in _WORDS_OF[name]:
        raise ValueError


_WORDS_OF = {
    "trace_numpy": ("compile", "always", "never"),
    "continuations": ("block", "function"),
    "thrift": ("packages", "all", "off"),
    "compile": ("", "background", "now"),
    "choose": ("measured", "always"),
    "mode": ("", "default", "max-autotune"),
}
"Options that are one of a few words."

_MAY_BE_0 = ("jobs", "exit_wait")


def _allowed(name: str, kind: type) -> str:
    if name in _WORDS_OF:
        return ", ".join(filter(None, _WORDS_OF[name]))
    if name == "log":
        return f"a list of {', '.join(LOGS)}"
    least = "from 0 on" if name in _MAY_BE_0 else "above 0"
    return {
        bool: "1, 0, true, false, yes, no, on, off",
        int: f"a whole number {least}",
        float: f"a number {least}",
        str: "a string",
        tuple: "names separated by commas, or a list of strings",
    }[kind]


def _literal(text: str) -> Any:
    """A value as Python writes it, else the text itself."""
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    try:
        return _WORDS[str(value).strip().lower()]
    except KeyError:
        raise ValueError from None


def _to_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return int(value)


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


def _to_str(value: Any) -> str:
    return os.fspath(value)


def _to_names(value: Any) -> tuple[str, ...]:
    parts = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(part, str) for part in parts):
        raise TypeError
    return tuple(name.strip() for part in parts for name in part.split(",") if name.strip())


def _to_shapes(rows: Any, origin: str) -> tuple[Shape, ...]:
    try:
        made = msgspec.convert(rows, tuple[Shape, ...], strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"shapes can't be read: {error}", where=origin, hint=_SHAPES) from None
    for row in made:
        wrong = ":" not in row.function or not row.argument.isidentifier()
        if (
            wrong
            or (row.dimension is None and (row.min, row.max) != (None, None))
            or (row.min or 0) > (row.max or 2**62)
        ):
            raise ConfigError(f"shapes has a row that says nothing: {row}", where=origin, hint=_SHAPES)
    return made


_SHAPES = (
    'each row has function = "module:qualname", argument = "x" and, for a tensor, dimension = 0,'
    " with min and max where they are known"
)

_CONVERT: dict[type, Any] = {bool: _to_bool, int: _to_int, float: _to_float, str: _to_str, tuple: _to_names}
