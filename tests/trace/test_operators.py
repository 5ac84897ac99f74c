"""Operators in forms of their own: numbers out of tensors, setters, `out=`, resizing, views, indexing, sparse tensors.

Each program is run plainly and compiled, and all that can be seen of it compared: values, metadata, strides,
aliasing, mutated arguments, gradients, generators. Programs under `@captured` are one graph, those under `@breaks`
aren't.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import aotdyn
from aotdyn import config
from tests.opinfo.observe import Cloner, Observation, difference
from tests.opinfo.walk import settings, watch

CAPTURED: list[Any] = []
BREAKS: list[Any] = []
INPUTS: dict[str, Any] = {
    "x": lambda: torch.linspace(-2, 2, 12).reshape(3, 4),
    "y": lambda: torch.arange(12.0).reshape(3, 4),
    "g": lambda: torch.linspace(-2, 2, 12).reshape(3, 4).requires_grad_(),
    "w": lambda: torch.nn.Parameter(torch.ones(3, 4)),
    "c": lambda: torch.linspace(-2, 2, 12).reshape(3, 4).to(torch.complex64),
    "s": lambda: torch.tensor(2.0),
    "d": lambda: torch.tensor(2.5, dtype=torch.float64),
    "i": lambda: torch.tensor(2),
    "b": lambda: torch.tensor(True),
    "e": lambda: torch.empty(0),
    "two": lambda: torch.tensor([0, 2]),
    "mask": lambda: torch.tensor([True, False, True]),
    "image": lambda: torch.linspace(-2, 2, 96).reshape(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "coo": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "quantised": lambda: torch.quantize_per_tensor(torch.linspace(-2, 2, 12), 0.1, 0, torch.qint8),
    "rng": lambda: torch.Generator().manual_seed(5),
}


def captured(function: Any) -> Any:
    CAPTURED.append(function)
    return function


def breaks(function: Any) -> Any:
    BREAKS.append(function)
    return function


# Numbers out of tensors


@captured
def fills_with_a_tensor(x, s, i, d, b):
    first = torch.full((2, 3), s), torch.full([2], fill_value=i), torch.full((2,), d), torch.full((2,), b)
    return first, torch.full_like(x, s, dtype=torch.int32), x.new_full((2,), s), torch.full((2,), d, dtype=torch.int64)


@captured
def fills_out(s, y):
    return torch.full((3, 4), s, out=y)


@captured
def made_of_tensors(s, i, d, b):
    mixed = torch.tensor([s, 1.0]), torch.tensor([i, 2.0]), torch.tensor([s, i]), torch.tensor([b, 1])
    return (
        torch.tensor([s, s + 1]),
        torch.tensor([[i, i], [i, 1]]),
        mixed,
        torch.tensor([s, d]),
        torch.as_tensor([s, 2]),
    )


@captured
def made_of_tensors_are_copies(s):
    made = torch.tensor([s])
    made.add_(1)
    return made, s


@breaks
def made_of_tensors_with_gradient(g):
    return torch.tensor([g[0, 0]])


@captured
def tensors_as_bounds(x, s):
    y = x.clone()
    y[0], y[1, 2] = s, s
    clamped = x.clamp(max=s), x.clamp(min=-s), torch.lerp(x, x + 1, s)
    return clamped, x.masked_fill(x > 0, s), torch.where(x > 0, s, x), x.fill_(s), 2**s, torch.linspace(0, s, 3), y


# Setters


@captured
def sets_real_and_imag(c, y):
    c.imag = y
    c.real = y + 1
    return c, c.abs()


@breaks
def sets_real_to_a_number(c):
    c.real = 1.0
    return c


@captured
def sets_requires_grad(x):
    y = x.clone()
    y.requires_grad = True
    return y


@captured
def sets_grad(w, y):
    w.grad = y
    same = w.grad is y
    w.grad.add_(1)
    return same, w.grad + 1, y


@captured
def sets_grad_to_none(w, y):
    w.grad = y
    w.grad = None
    return w.grad


@captured
def steps_by_grad(w, y):
    with torch.no_grad():
        w.grad = y
        w.sub_(w.grad)
        w.grad.zero_()
    return w.sum()


@breaks
def sets_grad_of_another_size(w, y):
    w.grad = y[0]


@breaks
def sets_grad_of_another_dtype(w, y):
    w.grad = y.double()


@captured
def sets_data(x, y):
    z = x[0]
    x.data = y
    y.add_(1)
    z.add_(1)
    return x, x + 1, z, x.data is x.data


@captured
def sets_data_of_another_size(x, y):
    x.add_(5)
    x.data = y[0]
    return x.shape, x * 2


@captured
def sets_data_of_a_parameter(w):
    w.data = w.data * 2


@captured
def swaps_data(x, y):
    x.data, y.data = y.data, x.data
    return x, y


@captured
def sets_data_of_a_copy(x, y):
    z = x.clone()
    z.data = y
    return z, z is y


@breaks
def sets_data_of_what_autograd_saved(w, y):
    z = y.clone()
    m = w * z
    z.data = y
    return m, z


@breaks
def uses_a_parameter_whose_data_is_set(w, y):
    w.data = w.data * 2
    return (w * y).sum()


@breaks
def sets_data_of_another_dtype(x):
    x.data = x.double()
    return x


# Constructors


@captured
def legacy_constructors(x):
    sizes = torch.Tensor(2, 3).shape, torch.FloatTensor(3).shape, torch.Tensor(x.size()).shape
    data = torch.Tensor([1, 2]), torch.LongTensor([1, 2]), torch.BoolTensor([True, False]), torch.HalfTensor((2, 3))
    return sizes, data, torch.Tensor(), torch.DoubleTensor([x.shape[0]])


@breaks
def legacy_constructor_of_a_tensor(x):
    return torch.Tensor(x)


# out=, resizing


@captured
def writes_out(x, y):
    return torch.add(x, 1, out=y) is y, y, torch.sum(x, 0, out=y[0]), torch.add(x, 1, out=None)


@captured
def resizes_out(x, e):
    i = torch.empty(0, dtype=torch.int64)
    values, indices = torch.sort(x, out=(e, i))
    return values is e, indices is i, e.shape, torch.mul(x, 2, out=torch.empty(0)), torch.arange(3, out=torch.empty(0))


@captured
def resizes(x, e, s):
    y = x.clone()
    return x.resize_(2, 3), y.resize_as_(s), y.shape, e.resize_(0, 2)


@captured
def turns_in_place(x):
    x.t_()
    x.unsqueeze_(0)
    return x.shape, x.squeeze_(), x + 1


@captured
def foreach(x, y):
    torch._foreach_mul_([x, y], 3.0)
    torch._foreach_addcdiv_([x], [y], [y + 4], -0.1)
    torch._foreach_copy_([y], [x])
    return torch._foreach_add([x, y], [y, x]), torch._foreach_norm([x, y]), x, y


@captured
def foreach_in_order(x, y):
    torch._foreach_add_([x, y], [2 * y, x])
    a, b = x * 1, y + 1
    torch._foreach_copy_([a, b], [b, a])
    torch._foreach_mul_([a, a], [3.0, 4.0])
    torch._foreach_addcdiv_([a, a, b], [b, a, a], [b, b, b], [2.0, 3.0, 4.0])
    same, other = torch._foreach_lerp_([a, b], [b, x], 0.3)
    torch._foreach_sub_(self=[a, b], other=[b, a], alpha=2)
    torch._foreach_sqrt_([b, b])
    s = a.sum()
    torch._foreach_mul_([s, a], s)
    rows = torch.stack([x, y])
    torch._foreach_add_([rows[0], rows[1]], [rows[1], rows[0]])
    torch._foreach_add_([rows[0, :2], rows[0, 2:]], [x[:2], x[2:]])
    return x, y, a, b, rows, s, same is a, other is b


# Views


@captured
def writes_to_views(x):
    x.as_strided((2, 2), (4, 1)).add_(1)
    x.diagonal().zero_()
    a, b = x.chunk(2, 1)
    a.mul_(2)
    v = x[1:].t()[1]
    v.sub_(3)
    return x, a, b, v, x.unfold(1, 2, 1), x.view(torch.int32), x[0].expand(3, 4)


@captured
def writes_under_a_view(g):
    y = g * 2
    v = y[0]
    y.mul_(3)
    v.add_(1)
    return y.sum(), v


@captured
def complex_views(c):
    c.real.mul_(2)
    torch.view_as_real(c)[..., 1] = 1
    y = c.conj()
    y.mul_(2)
    return c, y, c.H, y.imag.is_neg(), y.resolve_conj(), c.angle()


# Indexing


@captured
def indexes(x, two):
    basic = x[None], x[..., 1], x[::2, 1:3], x[-1, -2], x[0, ..., 1], x[slice(0, 2)], x[:, True]
    lists = x[[0, 2]], x[[0, 2], [1, 3]], x[[[0, 1], [1, 2]]], x[range(2)]
    return basic, lists, x[two], x[two, two], x[:, two], x[two[:, None], two], x[..., two], x.take(two)


@captured
def assigns_to_indices(x, two, mask):
    x[two] = 1
    x[:, two] += 2
    x[two, 1:] = torch.zeros(2, 3)
    x[mask] = 7
    x[mask, 0] = 1
    x[x > 5] = 0
    x[0, ...] = torch.tensor([1, 2, 3, 4])
    x[1, :] = torch.tensor([1.0, 2, 3, 4]).half()
    x[0, 0] **= 2
    x[2] = True
    x.index_put_((two, two), torch.tensor(1.0), accumulate=True)
    return x


@breaks
def indexes_by_a_mask(x):
    return x[x > 0]


@breaks
def indexes_by_a_number(x, i):
    return x[i], x[:i]


# Empty, zero-dimensional and channels-last tensors


@captured
def empty_tensors(e):
    sums = e.sum(), e.prod(), e.mean(), e.norm(), e.any(), e.all()
    return sums, torch.cat([e, e + 1]), e.sort(), e.cumsum(0), e.reshape(0, 3).sum(0), e.reshape(0, 3).t()


@captured
def zero_dimensions(s):
    s[...] = 5
    return s + 1, s[None], s.expand(3), s.reshape(1), torch.stack([s, s]), list(s[None])


@captured
def channels_last(image):
    kept = image + 1, F.max_pool2d(image, 2), F.conv2d(image, torch.ones(2, 3, 1, 1)), torch.empty_like(image).stride()
    return kept, image.contiguous(), image.is_contiguous(memory_format=torch.channels_last), image.clone()


# Sparse tensors: all but what their number of elements decides


@captured
def sparse(coo, x):
    facts = coo.is_sparse, coo.layout, coo.sparse_dim(), coo.dense_dim(), coo.is_coalesced(), len(coo)
    return facts, coo * 2, coo.to_dense() + 1, coo @ x, torch.sparse.mm(coo, x), coo + coo, x.to_sparse().to_dense()


@captured
def compressed_sparse(csr, x):
    return csr @ x, csr + csr, csr.to_dense()


@breaks
def number_of_sparse_elements(coo):
    return coo._nnz()


@breaks
def parts_of_a_sparse_tensor(coo, csr):
    return coo.coalesce().values().shape, csr.crow_indices(), csr.values().shape


# Generators


@breaks
def draws_from_a_generator(rng, x):
    return torch.randn(3, generator=rng), torch.randperm(4, generator=rng), x.normal_(generator=rng)


@captured
def draws(x):
    tensors = x.normal_(), x.uniform_(0, 1), x.exponential_(), x.bernoulli_(0.3), torch.rand_like(x)
    return tensors, torch.randn(2, generator=None), F.dropout(x, 0.5), torch.randperm(4), torch.multinomial(x + 1, 2)


@captured
def seeds(x):
    torch.manual_seed(0)
    return torch.randn(2) + x[0, 0]


# Tensors that fakes can't stand for


@breaks
def nested(x):
    both = torch.nested.nested_tensor([x[0], x[1, :2]])
    return torch.nested.to_padded_tensor(both * 2, 0.0)


@breaks
def jagged(x):
    both = torch.nested.nested_tensor([x[0], x[1, :2]], layout=torch.jagged)
    return (both * 2).values()


@breaks
def quantised(quantised):
    return quantised.dequantize() + 1, quantised.q_scale(), quantised.int_repr()


@breaks
def quantised_on_the_way(x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize(), torch.fake_quantize_per_tensor_affine(
        x, 0.1, 0, -128, 127
    )


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path) -> Iterator[None]:
    with settings(), config.overrides(cache_dir=str(tmp_path)):
        yield


def _outcome(function: Any) -> str | None:
    """What differs; `watch` knows then whether it was one graph."""
    made = tuple(INPUTS[name]() for name in inspect.signature(function).parameters)
    plain = Observation(function, Cloner()(made), True)
    watch.clear()
    return difference(plain, Observation(aotdyn.compile(function, backend="eager"), Cloner()(made), True))


@pytest.mark.parametrize("function", CAPTURED, ids=lambda f: f.__name__)
def test_captured(function: Any) -> None:
    assert _outcome(function) is None
    assert watch.broke() is None
    assert not watch.raised, watch.raised


@pytest.mark.parametrize("function", BREAKS, ids=lambda f: f.__name__)
def test_breaks(function: Any) -> None:
    assert _outcome(function) is None
    assert watch.broke() is not None


def test_the_form_of_a_sparse_tensor_is_guarded() -> None:
    """Its sparse and dense dimensions, and whether it is coalesced, are no part of a tensor's other metadata."""

    def facts(coo: torch.Tensor) -> tuple[int, int, bool]:
        return coo.sparse_dim(), coo.dense_dim(), coo.is_coalesced()

    compiled = aotdyn.compile(facts, backend="eager")
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.ones(2), (3, 3))
    rows = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 3), (3, 3))
    for coo in (torch.eye(3).to_sparse(), twice, rows, twice.coalesce()):
        assert compiled(coo) == facts(coo)


def test_whether_a_tensor_is_a_leaf_is_guarded_where_its_grad_is_set() -> None:
    def set_grad(w: torch.Tensor, y: torch.Tensor) -> None:
        w.grad = y

    compiled = aotdyn.compile(set_grad, backend="eager")
    leaf, y = torch.ones(2, requires_grad=True), torch.ones(2)
    for w in (leaf, leaf * 1, leaf):
        watch.clear()
        compiled(w, y)
        assert w.grad is y
    assert not watch.traced


def _factories(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    made = torch.zeros(2), torch.full((2,), 1.5), torch.tensor([1.0, 2]), torch.arange(0, 1, 0.25), torch.Tensor([1])
    return *made, torch.linspace(0, 1, 3), torch.eye(2), x.new_zeros(2), torch.zeros_like(x), torch.tensor([1])


def test_factories_follow_the_default_dtype() -> None:
    compiled = aotdyn.compile(_factories, backend="eager")
    x = torch.ones(2)
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            assert [each.dtype for each in compiled(x)] == [each.dtype for each in _factories(x)]
            assert watch.broke() is None
    finally:
        torch.set_default_dtype(before)


def test_factories_follow_the_default_device() -> None:
    compiled = aotdyn.compile(_factories, backend="eager")
    x = torch.ones(2)
    for device in ("cpu", "meta", "cpu"):
        with torch.device(device):
            assert [each.device for each in compiled(x)] == [each.device for each in _factories(x)]


def test_two_samples_of_random_numbers_follow_one_another() -> None:
    """The generator goes on from call to call, as it does without a graph."""

    def draw(x: torch.Tensor) -> torch.Tensor:
        return torch.rand(2) + torch.randn_like(x) + F.dropout(x)

    compiled = aotdyn.compile(draw, backend="eager")
    x, seen = torch.ones(2), []
    for function in (draw, compiled):
        torch.manual_seed(3)
        seen.append([*(function(x).tolist() for _ in range(3)), torch.rand(1).item()])
    assert seen[0] == seen[1]
