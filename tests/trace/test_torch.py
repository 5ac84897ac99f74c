"""Torch under the tracer: each function gives plain Python's result, whole graph."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import aotdyn
from aotdyn import marks

from .results import same
from .torch_programs import X, differ


def arithmetic(x):
    return (x + 1) * 2 - x / 3 + 2 * x - 1 / (x + 5), x**2, 2**x, x @ x.T, -x, abs(x), x // 2, x % 3


def reflected(x):
    return 1 - x, 5 // (x + 10), 2**x, 7 % (x + 9)


def integers(x):
    n = x.to(torch.int64)
    return n & 3, n | 1, n ^ 5, ~n, n << 1, n >> 1, n // 2, n % 3


def comparisons(x):
    return x > 0, x <= 1, x == x, x != 0, 0 < x, (x > 0) & (x < 1)  # noqa: SIM300


def not_equal_to_none(x):
    return x == None, x != None, x is None  # noqa: E711


def in_place(x):
    y = x.clone()
    y += 1
    y *= x
    y.add_(2).mul_(3)
    y[0] = 7
    y[:, 1:3] -= 1
    y[1, 2] = x[0, 0]
    return y


def same_object(x):
    y = x.clone()
    z = y.add_(1)
    y += 2
    return z is y, x.contiguous() is x, F.dropout(x, 0.5, False) is x, y


def mutates_input(x):
    x.mul_(2)
    x[0] = 1
    return x.sum()


def indexing(x):
    i = torch.tensor([0, 2])
    return x[0], x[-1, 1:], x[..., 0], x[:, None], x[i], x[[0, 1]], x[i, 1], x[::2, ::3], x[0, 0], x[(0, 1)]


def metadata(x):
    facts = (x.shape, x.size(), x.size(0), x.size(-1), x.dim(), x.ndim, x.numel(), x.dtype, x.device.type, len(x))
    more = (x.stride(), x.is_contiguous(), x.T.is_contiguous(), x.is_floating_point(), x.requires_grad, x.is_cuda)
    rest = (x.element_size(), x.itemsize, x.nbytes, x.layout, x.is_leaf, x.grad, x.grad_fn, x.type())
    return facts, more, rest, torch.is_tensor(x), torch.numel(x), torch.is_floating_point(x), x.storage_offset()


def uses_shape(x):
    b, n = x.shape
    return x.view(n, b).reshape(-1, 2), x.new_zeros(b, n + 1), torch.zeros(x.shape), x.shape[0] * x.shape[1]


def unpacks(x):
    a, b, c = x
    first, second = x.split(2, dim=1)
    return a + b, [row * 2 for row in x], first, second, x.unbind(1)[0], list(x.chunk(2))


def named_results(x):
    values, indices = x.max(dim=1)
    top = torch.topk(x, 2)
    return values, indices, top.values, top.indices, x.sort(dim=0).values, torch.svd_lowrank is None


def functional(x):
    y = F.relu(F.gelu(x) + F.silu(x))
    y = F.layer_norm(y, (4,))
    y = F.softmax(F.pad(y, (1, 1)), dim=-1)
    y = F.interpolate(y[None, None], scale_factor=2.0)
    return F.max_pool2d(y, 2), F.normalize(x), F.one_hot(torch.arange(3), 4), F.mse_loss(x, x + 1)


def views(x):
    return x.T, x.mT, x.real, x.transpose(0, 1), x.permute(1, 0), x.flatten(), x.unflatten(1, (2, 2)), x.data, x.H


def python_methods(x):
    return (
        x.norm(),
        x.split(1),
        torch.einsum("ab,cb->ac", x, x),
        torch.meshgrid(x[0], x[0], indexing="ij"),
        x.__rsub__(1),
    )


def containers(x):
    return torch.cat([x, x]), torch.stack((x, x + 1), dim=0), torch.where(x > 0, x, 0.0), torch.tensor([1.0, 2.0])


def keyword_arguments(x):
    return (
        x.sum(dim=1, keepdim=True),
        x.to(dtype=torch.float64),
        torch.full((2,), 3.0, dtype=torch.float32),
        x.std(unbiased=False),
    )


def out_argument(x):
    y = torch.empty_like(x)
    z = torch.add(x, 1, out=y)
    return z is y, y


def without_grad(w):
    with torch.no_grad():
        a = w * 2
        inside = torch.is_grad_enabled()
    b = w * 3
    return a.requires_grad, b.requires_grad, inside, torch.is_grad_enabled(), a, b.detach()


@torch.no_grad()
def decorated(w):
    y = w * 2
    with torch.enable_grad():
        z = w * 3
    return y.requires_grad, z.requires_grad


def switches_grad(w):
    with torch.set_grad_enabled(False):
        a = w + 1
        with torch.set_grad_enabled(True):
            b = w + 1
    return a.requires_grad, b.requires_grad


def autocasts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        inside = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        with torch.autocast("cpu", enabled=False):
            z = x @ x.T
    return y, y.dtype, z.dtype, inside, torch.is_autocast_enabled("cpu")


def facts_of_state(x):
    state = torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return state, torch.are_deterministic_algorithms_enabled(), torch.jit.is_scripting(), torch.get_default_device()


def folded(x):
    return (
        torch.broadcast_shapes((3, 1), (1, 4)),
        torch.promote_types(torch.float32, torch.float64),
        torch.result_type(x, 1),
        torch.finfo(torch.float32).max,
        torch.iinfo(torch.int8).min,
        torch.device("cpu"),
        torch.Size([1, 2]).numel(),
        x * torch.finfo(x.dtype).eps,
    )


def operators(x):
    return torch.ops.aten.add.Tensor(x, x), torch.ops.aten.sin(x), torch._VF.sin(x), torch._C._nn.gelu(x)


def attribute_on_tensor(x):
    y = x + 1
    y.note = "hello"
    return y, y.note, hasattr(x, "absent"), getattr(x, "absent", 3)


def checks(x):
    torch._check(x.shape[0] == 3)
    torch._check(x.dim() == 2, lambda: "no matrix")
    torch._assert(x.dim() == 2, "no matrix")
    return x + 1


def random_numbers(x):
    return x + torch.rand(3, 4) + F.dropout(x, 0.5, True) + torch.randn_like(x)


def iterates_flipped(x):
    return [row * 1 for row in reversed(x)], sum(x), [i for i, _ in enumerate(x)]


def flowing_numbers(x):
    """Numbers of data that nobody looks at are read behind the graph."""
    y = x * 2
    total = y.sum().item() * 0.5 + 1
    return y, total, [total - 1, y.max().item()], x[0].tolist(), (x > 0)[0, 1].item()


def data_as_sizes(x):
    n = torch.tensor([1, 2]) + x.shape[0] - 3
    first, second = n.tolist()
    return x.split([first, second]), [first * 4, n.tolist()], torch.zeros(second, first)


def tensors_of_tensors(x):
    n = x.to(torch.int64)
    made = torch.tensor([x.sum(), 1, x[0, 0].double()]), torch.tensor([n.sum()], dtype=torch.int32)
    return made, torch.tensor([[n[0, 0], 2], [3, n[1, 1]]]), torch.tensor([n[0, 0] > 1, True])


def classes_as_dtypes(x):
    return x.to(bool).to(float).to(int), torch.zeros(2, dtype=float), x.to(complex)


WHOLE = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__code__", None) and value.__module__ == __name__
]


@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_whole_graph(f):
    differ(f, X.clone().requires_grad_("w" in f.__code__.co_varnames[:1]))


def deterministic(x):
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    inside = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    y = x.cumsum(0)
    torch.use_deterministic_algorithms(False)
    return before, inside, y, torch.get_deterministic_debug_mode()


def stays_deterministic(x):
    torch.use_deterministic_algorithms(True)
    return x + 1


def test_deterministic_mode():
    differ(deterministic, X)
    compiled = aotdyn.compile(stays_deterministic, backend="eager", fullgraph=True)
    try:
        for _ in range(2):
            same(compiled(X), X + 1)
            assert torch.get_deterministic_debug_mode() == 2
            torch.use_deterministic_algorithms(False)
    finally:
        torch.use_deterministic_algorithms(False)


@dataclasses.dataclass(frozen=True)
class Pair:
    left: torch.Tensor
    right: torch.Tensor
    scales: list = dataclasses.field(default_factory=lambda: [5, 6])


def joined(pair, by=1):
    return pair.left * pair.scales[1] + pair.right * by


def makes_a_record(x):
    return joined(Pair(x, x + 1), by=2)


def test_frozen_dataclass_in_a_graph():
    aotdyn.allow_in_graph(joined)
    try:
        differ(makes_a_record, X)
    finally:
        marks.IN_GRAPH.discard(joined)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.norm = nn.BatchNorm1d(4)
        self.tail = nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 2), nn.Tanh())
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + x
        return self.tail(self.norm(x)) * self.scale


MODULES = {
    "net": (Net, (X,)),
    "conv": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        (torch.rand(2, 1, 4, 4),),
    ),
    "lstm": (lambda: nn.LSTM(4, 5, batch_first=True), (torch.rand(2, 3, 4),)),
    "attention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (torch.rand(2, 3, 4),) * 3),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (torch.rand(2, 3, 4),)),
    "embedding": (lambda: nn.Embedding(5, 3), (torch.tensor([1, 4]),)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, training):
    make, args = MODULES[name]
    torch.manual_seed(1)
    plain = make().train(training)
    other = copy.deepcopy(plain)
    compiled = aotdyn.compile(other, backend="eager", fullgraph=True)
    for _ in range(2):
        torch.manual_seed(0)
        expected = plain(*args)
        torch.manual_seed(0)
        same(expected, compiled(*args))
    for one, two in zip(plain.state_dict().values(), other.state_dict().values(), strict=True):
        same(one, two)


def union_annotations(x):
    def inner(a: list[int] | None, b: int | None = None) -> dict[str, int] | None:
        return b

    return x + 1, inner(None, 3), inner.__annotations__["a"], list[int] | str


def test_unions_of_generic_aliases():
    plain, compiled = union_annotations(X), aotdyn.compile(union_annotations, backend="eager", fullgraph=True)(X)
    same(plain[0], compiled[0])
    assert plain[1] == compiled[1]
    assert plain[3] == compiled[3]


class Backwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, breaks):
        for i, layer in enumerate(reversed(self.layers)):
            x = layer(x)
            if breaks and i == 1:
                aotdyn.graph_break()
        rest = reversed(self.layers)
        return x, next(rest), rest


@pytest.mark.parametrize("breaks", [False, True])
def test_reversed_by_length_and_item(breaks):
    module = Backwards()
    x, first, rest = module(X, breaks)
    y, other, left = aotdyn.compile(module, backend="eager", fullgraph=not breaks)(X, breaks)
    same(x, y)
    assert first is other
    assert type(left) is reversed
    assert list(left) == list(rest)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(3)
        self.second = nn.LazyLinear(2)

    def forward(self, x):
        return self.second(F.relu(self.first(x))) + 1


def test_lazy_modules():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    module = Lazy()
    compiled = aotdyn.compile(module, backend=backend, fullgraph=True)
    first = compiled(X)
    assert type(module.first) is nn.Linear
    assert not graphs
    torch.testing.assert_close(compiled(X), module(X))
    torch.testing.assert_close(first, module(X))
    assert len(graphs) == 1


def chosen_attention(x, allowed):
    with torch.nn.attention.sdpa_kernel(allowed):
        y = F.scaled_dot_product_attention(x, x, x)
        names = [each.name for each in torch.nn.attention._cur_sdpa_kernel_backends()]
    return y, names, allowed == torch.nn.attention.SDPBackend.MATH, {allowed: 1}[allowed], allowed


def test_kernels_of_attention():
    x, kinds = X.reshape(1, 1, 3, 4), torch.nn.attention.SDPBackend
    before = torch.nn.attention._cur_sdpa_kernel_backends()
    compiled = aotdyn.compile(chosen_attention, backend="eager", fullgraph=True)
    for allowed in (kinds.MATH, kinds.FLASH_ATTENTION, kinds.MATH):
        plain, traced = chosen_attention(x, allowed), compiled(x, allowed)
        torch.testing.assert_close(plain[0], traced[0])
        assert plain[1:] == traced[1:]
        assert torch.nn.attention._cur_sdpa_kernel_backends() == before


def test_kernels_of_attention_across_a_break():
    def f(x):
        with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
            y = F.scaled_dot_product_attention(x, x, x)
            aotdyn.graph_break()
            return y, torch.backends.cuda.flash_sdp_enabled()

    x = X.reshape(1, 1, 3, 4)
    compiled = aotdyn.compile(f, backend="eager")
    for _ in range(2):
        plain, traced = f(x), compiled(x)
        torch.testing.assert_close(plain[0], traced[0])
        assert plain[1] is traced[1] is False
        assert torch.backends.cuda.flash_sdp_enabled()


class LateParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("weight", None)

    def forward(self, x):
        if not hasattr(self, "weight"):
            return x
        return x - 1 if self.weight is None else x + self.weight


def test_a_parameter_that_is_none_is_there():
    module = LateParameter()
    compiled = aotdyn.compile(module, backend="eager", fullgraph=True)
    same(compiled(X), X - 1)
    module.weight = nn.Parameter(torch.ones(4))
    same(compiled(X), module(X))


def in_vain(x):
    y = x + 1
    return y.dim(), not [y]


def test_a_graph_in_vain_is_for_the_users_compiler_to_drop():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    assert in_vain(X) == aotdyn.compile(in_vain, backend=backend, fullgraph=True)(X)
    assert len(graphs) == 1
    assert "add" in graphs[0].code
    assert in_vain(X) == aotdyn.compile(in_vain, backend="inductor", fullgraph=True)(X)


def test_hooks_of_backward_passes():
    called = []

    def hook(module, given, received):
        called.append((type(module), len(given), len(received)))

    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    module.register_full_backward_hook(hook)
    module[0].register_full_backward_hook(hook)
    compiled = aotdyn.compile(module, backend="eager")
    seen = []
    for f in (module, compiled, compiled):
        x = X.clone().requires_grad_()
        f(x).sum().backward()
        seen.append((called[:], x.grad))
        called.clear()
    assert seen[0][0] == seen[1][0] == seen[2][0] != []
    assert torch.equal(seen[0][1], seen[1][1])
    assert torch.equal(seen[0][1], seen[2][1])


def test_records_of_a_profiler_that_is_on():
    def f(x):
        y = x * 2
        with torch.autograd.profiler.profile() as found, torch.autograd.profiler.record_function("mine"):
            aotdyn.graph_break()
            y = y + 1
        return y, "mine" in {each.key for each in found.key_averages()}

    compiled = aotdyn.compile(f, backend="eager")
    for _ in range(2):
        y, named = compiled(X)
        assert torch.equal(y, X * 2 + 1)
        assert named
