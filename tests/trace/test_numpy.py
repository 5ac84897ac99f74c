"""numpy under the tracer: functions of arrays as graphs, with plain numpy's classes, dtypes, shapes, strides."""

from __future__ import annotations

import copy
import functools
import operator
import warnings

import numpy as np
import pytest
import torch

import aotdyn

from . import results
from .results import exactly

A = np.linspace(-2, 2, 12).reshape(3, 4)
T = torch.arange(6.0).reshape(2, 3)


def arithmetic(a):
    return a + 1, 2 * a - a / 3, a**2, -a, abs(a), a @ a.T, a > 0, (a > 0) & (a < 1), a == a, 1 / (a + 5)


def integers(a):
    n = a.astype(np.int32)
    return n + 1, n * 2.5, n // 3, n % 3, n**2, n / 2, ~n, n & 3, n + np.float32(1), n.sum(), n.mean()


def dtypes(a):
    f = a.astype("float32")
    narrow = np.float32(3) * np.ones(2, dtype=np.float32), np.int8(100) + np.ones(1, dtype=np.int8)
    return (
        f.dtype,
        a.dtype == np.float64,
        a.dtype.name,
        f + 1.5,
        f + np.float64(1.5),
        f * a,
        (a * 5).astype(int),
        narrow,
    )


def facts(a):
    steps = a.strides, a.T.strides
    return steps, a.shape, a.ndim, a.size, a.nbytes, a.itemsize, len(a), isinstance(a, np.ndarray), a.T.shape


def reductions(a):
    axes = a.sum(axis=0), a.mean(1), a.max(axis=1, keepdims=True), a.argmax(), np.argmin(a, axis=0)
    return axes, a.sum(), np.std(a), a.var(ddof=1), np.any(a > 1), (a < 9).all(), a.cumsum(), np.prod(a)


def elementwise(a):
    trig = np.sin(a), np.exp(a), np.sqrt(abs(a)), np.log1p(abs(a)), np.floor(a), np.rint(a), np.tanh(a)
    return trig, np.maximum(a, 0), np.clip(a, -1, 1), np.where(a > 0, a, 3), np.isnan(a), np.hypot(a, a)


def subscripts(a):
    rows = a[0], a[-1, 1:], a[..., 0], a[:, None], a[::2, ::3], a[[0, 2]], a[np.array([0, 2]), 1], a[0, 0]
    return rows, [row for row in a], [x * 2 for x in a[0]], np.take(a, [0, 1], axis=1)  # noqa: C416


def assigns(a):
    a[0] = 7
    a[:, 1:3] -= 1
    a += a[0]
    b = a.reshape(-1)
    b[3] = 50
    return a.sum(), b


def scalars_are_copies(a):
    first = a[0, 0]
    a += 1
    return first, a[0, 0] - first


def shapes(a):
    joined = np.concatenate([a, a], axis=1), np.stack([a, a + 1]), np.vstack((a, a)), np.expand_dims(a, 0)
    return joined, a.reshape(4, 3), a.T, a.ravel(), a.flatten(), np.swapaxes(a, 0, 1), np.squeeze(a[None]), a.copy()


def makes(a):
    fresh = np.zeros((2, 3)), np.ones(3, dtype=np.int32), np.arange(5), np.eye(3), np.full(2, 3.5), np.linspace(0, 1, 7)
    grid = np.meshgrid(a[0], a[0], indexing="xy")
    return fresh, np.zeros_like(a), np.full_like(a, 2), np.array([a[0], a[1]]), np.array([[1, 2], [3, 4]]), grid


def products(a):
    return np.dot(a, a.T), np.outer(a[0], a[0]), np.einsum("ij,kj->ik", a, a), np.linalg.norm(a, axis=0), np.trace(a)


def read_only(a):
    return np.broadcast_to(a[0], (2, 4))


def of_tensors(a):
    t = torch.from_numpy(a)
    b = (t * 2).numpy()
    b += 1
    return t + 1, b, torch.from_numpy(b) + t, torch.from_numpy(a) is t, np.ones_like(t, dtype=np.float32)


def known_numbers(a):
    n = np.int64(8)
    return (
        4096 % n,
        np.sqrt(2.0),
        np.issubdtype(np.float32, np.floating),
        np.dtype("float").name,
        np.finfo(np.float32).max,
    )


WHOLE = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__code__", None) and value.__module__ == __name__
]


def nearly(a, b):
    """Compare what holds nothing: an array's class, dtype, strides, whether it can be written to, and its values."""
    if isinstance(a, np.ndarray):
        facts_of = operator.attrgetter("dtype", "shape", "flags.writeable")
        assert facts_of(a) == facts_of(b)
        assert [step for size, step in zip(a.shape, a.strides) if size > 1] == [
            step for size, step in zip(b.shape, b.strides) if size > 1
        ]
        if a.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    elif isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b)
    elif isinstance(a, (float, np.floating)):
        np.testing.assert_allclose(a, b, rtol=1e-6 if isinstance(a, np.float32) else 1e-12, atol=1e-12)
    else:
        exactly(a, b)


same = functools.partial(results.same, leaf=nearly)


def differ(f, *args, fullgraph=True, **options):
    """Run plainly and compiled, twice, on equal arguments: results and arguments agree."""
    compiled = aotdyn.compile(f, backend="eager", fullgraph=fullgraph, **options)
    for _ in range(2):
        first, second = copy.deepcopy(args), copy.deepcopy(args)
        same(f(*first), compiled(*second))
        same(first, second)


@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_whole_graph(f):
    differ(f, A)


def graphs(f, *calls, **options):
    """The number of graphs that calls need, and that their results are plain Python's."""
    made = []
    compiled = aotdyn.compile(f, backend=lambda module, inputs: made.append(module) or module.forward, **options)
    for args in calls:
        same(f(*copy.deepcopy(args)), compiled(*copy.deepcopy(args)))
    return len(made)


def test_captured():
    assert graphs(arithmetic, (A,), (A + 1,)) == 1
    assert graphs(lambda a: a * 2, (A,), (A.astype(np.float32),)) == 2, "dtypes are guarded"
    assert graphs(lambda a: a * 2, (A,), (A[:2],), (A[:1, :3],), dynamic=True) <= 2


def test_aliases():
    """One array twice, and a view of the other."""
    differ(lambda a, b: (operator.iadd(a, b), b + 1), A, A + 1)
    a = A.copy()
    f = aotdyn.compile(lambda a, b: (operator.iadd(a, 1), b * 2), backend="eager")
    f(a, A.copy())
    for other in (a, a[1:]):
        before = a.copy()
        _, doubled = f(a, other)
        np.testing.assert_array_equal(a, before + 1)
        np.testing.assert_array_equal(doubled, other * 2)


def breaks(a):
    b = a * 2
    aotdyn.graph_break()
    return 2 * b, b.sum(), b[::-1].copy(), sorted(b[0])


def test_breaks():
    differ(breaks, A, fullgraph=False)


def test_left_to_numpy():
    """What torch answers differently, or can't be shared with a tensor."""
    with np.errstate(divide="ignore"):
        differ(lambda a: (a // 0, a % np.array([2, 0, 1, 3])), np.arange(12).reshape(3, 4), fullgraph=False)
    differ(lambda a: a + 1, np.arange(6)[::-1], fullgraph=False)
    differ(lambda a: a + 1, np.broadcast_to(np.arange(3.0), (2, 3)), fullgraph=False)
    differ(lambda a: a + "c", np.array(["a", "b"], dtype=object), fullgraph=False)
    differ(lambda a: np.unique(a), np.array([1, 2, 1]), fullgraph=False)
    differ(lambda a: (a.tolist(), float(a.sum()), a.item(0)), A, fullgraph=False)
    differ(lambda a: np.random.RandomState(0).randn(2) + a[:2, 0], A, fullgraph=False)


def arithmetic_of_a_number(x, n):
    m = n
    m += 1
    return x + n, n - x, m, n * 2.5, -n, n > 3, x.sum() * np.float32(2) * n, torch.full((2,), 1) * n, n


def sizes_of_a_number(x, n):
    return x[:n], torch.zeros(n), x.repeat(n)


def looks_at_a_number(x, n):
    if n > 4:
        x = x + 1
    return x * n, abs(n)


def branches_on_a_size(x, n):
    y = x[:n]
    return y + 1 if y.shape[0] > 4 else y


@pytest.mark.parametrize(
    ("function", "cls", "made"),
    [
        (arithmetic_of_a_number, np.int64, 2),
        (arithmetic_of_a_number, np.float32, 2),
        (sizes_of_a_number, np.int64, 2),
        (looks_at_a_number, np.int16, 4),
        (branches_on_a_size, np.int64, 4),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_scalars_that_vary(function, cls, made):
    """The second value makes data of a number of numpy's, unless it is looked at: then each value has its variant."""
    f = aotdyn.compile(function, backend="eager", fullgraph=True)
    before = aotdyn.stats()["traced"]
    x = torch.arange(10.0)
    for n in (2, 3, 15, 7):
        same(f(x, cls(n)), function(x, cls(n)))
    assert aotdyn.stats()["traced"] - before == made


def test_floating_point_errors():
    """numpy's errors are raised where they are asked for."""
    f = aotdyn.compile(lambda a: np.log(a) * 2, backend="eager")
    same(f(A + 3), np.log(A + 3) * 2)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        f(A * 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            f(A * 0)


def test_warm(project):
    """A second process traces nothing, and the hook leaves numpy alone."""
    project.write(
        "app.py",
        """
        import numpy as np, aotdyn, torch

        def f(a, k):
            return a * k + np.float32(1), np.dtype("int8") == a.dtype

        g = aotdyn.compile(f, backend="eager")
        a = np.arange(4, dtype=np.float32)
        first, second = g(a, np.float32(2)), g(a, np.float64(2))
        assert str(g(a, np.float32(5))) == str(f(a, np.float32(5)))
        print(first, second[0].dtype, aotdyn.stats()["traced"], aotdyn.stats()["graph_calls"])
        """,
    )
    runs = [project.python("app.py") for _ in range(2)]
    assert not any(run.returncode for run in runs), runs[0].stderr
    first, second = (run.stdout.strip() for run in runs)
    assert "[1., 3., 5., 7.]" in first
    assert first.endswith("float64 3 3")
    assert second.endswith("float64 0 3")
