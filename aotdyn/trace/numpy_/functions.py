"""Functions and methods of numpy: which ones have the same values in torch, and how a call of one is recorded."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch

from aotdyn.guards.constants import NUMPY_SCALARS

from ..control import Break, NotConstant
from ..handlers import FOLDABLE, HANDLERS, handles
from ..torch_ import calls, leaf
from ..values import Array, Const, Object, Scalar, Sequence, Tensor, Value, force
from .arrays import array_of, captured, hints, matched, numpy_dtype, torch_dtype
from .record import Recording, recorded

Args = tuple[Value, ...]
Kwargs = dict[str, Value]

UFUNCS = leaf.words(
    "add subtract multiply divide negative positive absolute fabs sqrt square exp exp2 expm1 log log2 log10 log1p"
    " sin cos tan arcsin arccos arctan arcsinh arccosh arctanh sinh cosh tanh floor ceil trunc rint isnan isinf"
    " isfinite maximum minimum fmax fmin greater greater_equal less less_equal equal not_equal logical_and logical_or"
    " logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert arctan2 hypot copysign logaddexp power"
    " floor_divide remainder matmul conjugate deg2rad rad2deg degrees radians signbit"
)
REDUCTIONS = leaf.words(
    "sum prod mean std var max min amax amin argmax argmin any all cumsum cumprod count_nonzero ptp"
)
SHAPES = leaf.words(
    "reshape ravel transpose swapaxes moveaxis squeeze expand_dims concatenate stack vstack hstack dstack column_stack"
    " broadcast_to tile flip roll atleast_1d atleast_2d atleast_3d diag tril triu split array_split hsplit vsplit"
    " dsplit trace diagonal real imag copy meshgrid take_along_axis take where clip round sort diff"
)
MADE = leaf.words("zeros ones full eye identity zeros_like ones_like full_like empty empty_like arange")
PRODUCTS = leaf.words("dot inner outer tensordot einsum vdot kron linalg.norm fft.fftshift fft.ifftshift")
METHODS = leaf.words(
    "sum prod mean std var max min argmax argmin any all cumsum cumprod reshape ravel flatten transpose swapaxes"
    " squeeze astype copy round clip dot trace diagonal conj conjugate take fill"
)
COMPUTED = leaf.words("linspace logspace geomspace arange hanning hamming blackman bartlett tri")
"""Functions that make arrays of numbers alone: what numpy computed goes into the graph."""
FACTS = leaf.words("issubdtype result_type promote_types can_cast isscalar")
"""Functions of dtypes and classes."""
MOST = 4096
"""Elements of the largest array that goes into a graph as numbers."""


def call_numpy(
    t: Any, name: str, function: Any, counterpart: Any, args: Args, kwargs: Kwargs | None = None, cast: bool = False
) -> Value:
    """`function(*args)` of numpy, recorded as what torch._numpy's `counterpart` does.

    With `cast`, arrays are brought to the result's dtype first, in which numpy computes.
    """
    if not captured(t):
        raise Break(f"numpy's {name}", "numpy's functions are captured by compile() alone: see `trace_numpy`.")
    args, kwargs = tuple(_as_array(t, each) for each in args), kwargs or {}
    arrays: list[Array] = []
    asked = [_stand_in(t, each, arrays) for each in args]
    named = {key: _stand_in(t, each, arrays) for key, each in kwargs.items()}
    expected = ask(name, function, asked, named)
    if not arrays and isinstance(expected, numpy.generic):
        return Const(expected)

    def run(recording: Recording) -> Any:
        lowered = [lower(recording, each) for each in args]
        if cast and isinstance(expected, (numpy.ndarray, numpy.generic)):
            lowered = [_cast(each, expected.dtype) for each in lowered]
        return counterpart(*lowered, **{key: lower(recording, each) for key, each in kwargs.items()})

    return matched(t, name, recorded(t, run), expected, arrays)


def _as_array(t: Any, value: Value) -> Value:
    """A value with arrays in place of tensors, as numpy's functions see them."""
    value = force(value)
    if isinstance(value, Tensor):
        return array_of(t, value)
    if isinstance(value, Sequence) and any(isinstance(force(each), (Tensor, Sequence)) for each in value.items):
        return Sequence(value.cls, [_as_array(t, each) for each in value.items])
    return value


def ask(name: str, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What numpy itself gives for stand-ins; Break where it raises: Python raises that in its place."""
    try:
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Break(f"numpy's {name}: {type(error).__name__}: {error}") from error


def _stand_in(t: Any, value: Value, arrays: list[Array]) -> Any:
    """What numpy is asked with in place of a value."""
    from .. import model

    value = force(value)
    if isinstance(value, Array):
        assert value.tensor.node is not None  # an input is made before anything is recorded
        arrays.append(value)
        return value.like
    if isinstance(value, Scalar):
        known = calls.concrete(value.sym)
        return known if known is not None else _hint(value)
    if isinstance(value, Sequence) and value.cls in (list, tuple, torch.Size):
        return (list if value.cls is list else tuple)(_stand_in(t, each, arrays) for each in value.items)
    if isinstance(value, Object) and value.cls is slice:
        return slice(*(_stand_in(t, value.attrs[name] or Const(None), arrays) for name in ("start", "stop", "step")))
    try:
        return model.as_constant(value)
    except NotConstant:
        raise Break(f"a {value.cls.__qualname__} as argument of one of numpy's functions") from None


def _hint(value: Scalar) -> Any:
    if isinstance(value.sym, torch.SymInt):
        return hints([value.sym])[0]
    raise Break("a number that depends on data as argument of one of numpy's functions")


def lower(recording: Recording, value: Value) -> Any:
    """A value as torch._numpy takes it."""
    from torch._numpy import ndarray

    value = force(value)
    if isinstance(value, Array):
        return ndarray(recording.native(value))
    if isinstance(value, Sequence) and value.cls in (list, tuple, torch.Size):
        return (list if value.cls is list else tuple)(lower(recording, each) for each in value.items)
    native = recording.native(value)
    if isinstance(native, numpy.generic):
        return ndarray(torch.tensor(native.item(), dtype=torch_dtype(native.dtype)))
    if isinstance(native, numpy.dtype):
        return native.name
    return numpy.dtype(native).name if isinstance(native, type) and issubclass(native, numpy.generic) else native


def _cast(lowered: Any, dtype: numpy.dtype) -> Any:
    """One of torch._numpy's arrays as one of a wider dtype; anything else as it is."""
    from torch._numpy import ndarray

    if not isinstance(lowered, ndarray) or dtype.kind == "b":
        return lowered
    own, wanted = lowered.tensor.dtype, torch_dtype(dtype)
    wider = own is not wanted and numpy.can_cast(numpy_dtype(own), dtype, "safe")
    return ndarray(lowered.tensor.to(wanted)) if wider else lowered


def counterpart_of(path: str) -> Callable[..., Any]:
    """torch._numpy's function at a path."""
    import torch._numpy

    return functools.reduce(getattr, path.split("."), torch._numpy)  # type: ignore[return-value]


def _power(args: Args) -> None:
    """An integer to a negative power raises."""
    base, exponent = (force(each) for each in args[:2])
    known = isinstance(exponent, Const) and isinstance(exponent.value, int) and exponent.value >= 0
    if not known and not any(_inexact(each) for each in (base, exponent)):
        raise Break("numpy's power of integers, which may raise")


def _division(args: Args) -> None:
    """Integers divided by a number that isn't 0: by 0 numpy warns where torch raises; of floats signs of 0 differ."""
    left, right = (force(each) for each in args[:2])
    known = isinstance(right, Const) and type(right.value) is int and right.value != 0
    if not known or not isinstance(left, Array) or left.like.dtype.kind not in "iu":
        raise Break("numpy's floor_divide or remainder by what may be 0")


def _inexact(value: Value) -> bool:
    if isinstance(value, Array):
        return bool(value.like.dtype.kind in "fc")
    return isinstance(value, Const) and isinstance(value.value, (float, complex, numpy.inexact))


CHECKS: dict[str, Callable[[Args], None]] = {"power": _power, "floor_divide": _division, "remainder": _division}
"""Functions that are recorded for some arguments only."""


def _declare(path: str) -> None:
    function = functools.reduce(getattr, path.split("."), numpy)
    name = path.rpartition(".")[2]

    @handles(function)
    def call(t: Any, *args: Value, **kwargs: Value) -> Value:
        if name in CHECKS and len(args) > 1:
            CHECKS[name](args)
        if name in COMPUTED and not _has_sizes(args):
            return _computed(t, name, function, args, kwargs)
        return call_numpy(t, name, function, counterpart_of(path), args, kwargs, cast=name in UFUNCS)


def _declare_method(name: str) -> None:
    def call(t: Any, *args: Value, **kwargs: Value) -> Value:
        from torch._numpy import ndarray

        cls = numpy.ndarray if isinstance(force(args[0]), Array) and _is_array(args[0]) else numpy.generic
        return call_numpy(t, name, getattr(cls, name), getattr(ndarray, name), args, kwargs)

    for cls in (numpy.ndarray, numpy.generic):
        if hasattr(cls, name):
            HANDLERS[getattr(cls, name)] = call


def _is_array(value: Value) -> bool:
    return isinstance(force(value).like, numpy.ndarray)  # type: ignore[attr-defined]


def _has_sizes(args: Args) -> bool:
    return any(isinstance(force(each), Scalar) for each in args)


def _computed(t: Any, name: str, function: Any, args: Args, kwargs: Kwargs) -> Value:
    """An array that follows from numbers, computed by numpy."""
    if not captured(t):
        raise Break(f"numpy's {name}", "numpy's functions are captured by compile() alone: see `trace_numpy`.")
    arrays: list[Array] = []
    asked = [_stand_in(t, each, arrays) for each in args]
    named = {key: _stand_in(t, each, arrays) for key, each in kwargs.items()}
    if arrays:
        raise Break(f"numpy's {name} of arrays")
    return embedded(t, name, ask(name, function, asked, named))


def embedded(t: Any, name: str, array: Any) -> Value:
    """An array that numpy computed, as numbers in the graph."""
    if type(array) is not numpy.ndarray or array.size > MOST:
        raise Break(f"numpy's {name} gives more than numbers of a graph")
    dtype = torch_dtype(array.dtype)

    def filled(recording: Any) -> torch.Tensor:
        tensor = torch.tensor(array.tolist(), dtype=dtype)
        return tensor if array.size else tensor.reshape(array.shape)  # nested lists don't tell the shape of nothing

    made = recorded(t, filled)
    return matched(t, name, made, array, [])


def _array(t: Any, name: str, function: Any, args: Args, kwargs: Kwargs) -> Value:
    """`numpy.array` and `numpy.asarray`: of an array, of numbers, of lists of both."""
    if not captured(t):
        raise Break(f"numpy's {name}", "numpy's functions are captured by compile() alone: see `trace_numpy`.")
    args = tuple(_as_array(t, each) for each in args)
    arrays: list[Array] = []
    asked = [_stand_in(t, each, arrays) for each in args]
    expected = ask(name, function, asked, {key: _stand_in(t, each, []) for key, each in kwargs.items()})
    if not arrays:
        return embedded(t, name, expected)
    dtype = torch_dtype(expected.dtype)

    def build(recording: Recording, value: Value) -> Any:
        value = force(value)
        if isinstance(value, Sequence):
            return torch.stack([build(recording, each) for each in value.items])
        if isinstance(value, Array):
            found = recording.native(value)
            return found if found.dtype is dtype else found.to(dtype)
        return torch.tensor(getattr(force(value), "value", None), dtype=dtype)

    return matched(t, name, recorded(t, lambda recording: build(recording, args[0])), expected, arrays)


for _name in ("array", "asarray", "ascontiguousarray"):
    _function = getattr(numpy, _name)
    HANDLERS[_function] = functools.partial(
        lambda name, function, t, *args, **kwargs: _array(t, name, function, args, kwargs), _name, _function
    )
for _name in sorted(UFUNCS | REDUCTIONS | SHAPES | MADE | PRODUCTS | COMPUTED):
    _declare(_name)
for _name in sorted(METHODS):
    _declare_method(_name)
FOLDABLE.update(NUMPY_SCALARS)
FOLDABLE.update((numpy.dtype, numpy.finfo, numpy.iinfo))


def _fact(name: str) -> None:
    function = getattr(numpy, name)

    @handles(function)
    def call(t: Any, *args: Value) -> Value:
        from .. import model

        try:
            return model.constant(ask(name, function, [model.as_python(each) for each in args], {}))
        except NotConstant:
            raise Break(f"numpy's {name} of what isn't known") from None


for _name in sorted(FACTS):
    _fact(_name)


@handles(torch.from_numpy)
def _from_numpy(t: Any, array: Value) -> Value:
    """A tensor with the array's memory: another one each time."""
    known = force(array)
    if not isinstance(known, Array) or not _is_array(known) or not captured(t):
        raise Break("a tensor made of a numpy array")
    return calls.record(t, "detach", [known.tensor], {})


@handles(leaf.raw_method("numpy"))
def _numpy(t: Any, tensor: Value, **kwargs: Value) -> Value:
    """`Tensor.numpy()`; with `force=True` of the tensor without its gradient."""
    known = force(tensor)
    asked = kwargs.pop("force", Const(False))
    if not isinstance(known, Tensor) or kwargs or not captured(t):
        raise Break("Tensor.numpy: a tensor's data as a Python object")
    if isinstance(force(asked), Const) and force(asked).value and known.fake.requires_grad:  # type: ignore[attr-defined]
        return _as_array(t, calls.record(t, "detach", [known], {}))
    return array_of(t, known)
