"""Training kernels: gradients, and all that autograd shows of them, are plain Python's.

Kernels are the graphs that would be compiled, run as they are: no C++ compiler
is needed. `test_end_to_end.py` trains with compiled ones.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotdyn
from aotdyn.backends import inductor, packages, registry, stored, training
from aotdyn.report import events


@pytest.fixture(autouse=True)
def graphs_as_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library is the number of a graph."""
    graphs: list[torch.fx.GraphModule] = []

    def library(module: torch.fx.GraphModule, fakes: Any, name: str, options: Any, scratch: Path) -> Any:
        graphs.append(module)
        (scratch / name).write_text(str(len(graphs) - 1))
        return {name: scratch / name}

    def runner(path: Path) -> Callable[..., Any]:
        graph = graphs[int(path.read_text())]
        return torch.no_grad()(lambda *args: list(graph(*args)))

    monkeypatch.setattr(packages, "library", library)
    for module in (stored, inductor):
        monkeypatch.setattr(module, "runner", runner)
    events.reset()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function under `inductor`, without a store."""

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        with torch._guards.tracing(None):  # that of a callable backend
            return registry.compile(module, inputs, "inductor")

    return aotdyn.compile(function, backend=backend, **options)


def random(*shape: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=grad)


def same_gradient_twice(x, y):
    return x + y


def outputs_of_some_inputs(x, y):
    return x.sin(), (y * 2).cos()


def views_and_numbers(x, y):
    z = x * y
    return z, z.t(), z.detach(), x.view(-1), y[0], z.argmax(), z.shape[0], None, z.clone()


def writes_to_a_result(x, w):
    y = x * 1.0
    y.mul_(w)
    y[0] = w
    return y.sum(), y, y.contiguous()


def writes_to_an_input(x, w):
    x.mul_(w)
    return x.sin(), x.view(-1)


def overwrites_an_input(x, w):
    x.copy_(w.expand(3, 4) * 2)
    return x.sin()


def writes_without_gradients(x, n):
    with torch.no_grad():
        n += x.mean(0)
    return x * n


def decays_a_leaf(x, w):
    with torch.no_grad():
        w.mul_(0.9)
        scale = w.norm()
    return x * scale, (x * w).sin(), w.view(2, 2)


def draws(x):
    return F.dropout(x.sin(), 0.5), torch.rand(2)


def without_gradients_inside(x, w):
    with torch.no_grad():
        m = (x * w).softmax(-1)
        t = m.t()
    return (x * w * m).sum(), m, t


def casts(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w.expand(4, 4)
    return y.float().tanh(), y


def equal_results(x):
    return x * 2, x * 2, x.clone(), x.t().contiguous(), x.sum(), x.mean(0).expand(5, 4)


def constants(x):
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4)


def ours(*more: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return random(3, 4), *more


CASES: list[tuple[Callable[..., Any], Callable[[], Sequence[torch.Tensor]]]] = [
    (same_gradient_twice, lambda: ours(random(3, 4))),
    (outputs_of_some_inputs, lambda: ours(random(3, 4))),
    (views_and_numbers, lambda: ours(random(3, 4, grad=False))),
    (writes_to_a_result, lambda: ours(random(4))),
    (writes_to_an_input, lambda: (random(3, 4) * 1, random(4))),
    (writes_to_an_input, lambda: (random(3, 4, grad=False), random(4))),
    (overwrites_an_input, lambda: (random(3, 4) * 1, random(4))),
    (writes_without_gradients, lambda: ours(torch.zeros(4))),
    (decays_a_leaf, lambda: ours(random(4))),
    (draws, ours),
    (without_gradients_inside, lambda: ours(random(4))),
    (casts, lambda: ours(random(4))),
    (equal_results, ours),
    (constants, ours),
]


def gradients(results: list[torch.Tensor], inputs: list[torch.Tensor]) -> Iterator[Any]:
    """Gradients taken in the ways that there are, the last of them twice, then once too often."""
    first, total = results[0].sum(), sum((each * each).sum() * (i + 1) for i, each in enumerate(results))
    take: dict[str, Any] = {"inputs": inputs, "allow_unused": True, "retain_graph": True}
    yield torch.autograd.grad(first, **take)
    yield torch.autograd.grad(total, **take)
    yield torch.autograd.grad(total, **take)
    rows = torch.stack([torch.ones_like(results[-1]), torch.full_like(results[-1], 2)])
    yield torch.autograd.grad(results[-1], grad_outputs=rows, is_grads_batched=True, **take)
    if all(each.dtype is torch.float32 for each in results):  # in low precision, the two differ by rounding
        found = torch.autograd.grad(total, create_graph=True, **take)
        yield found
        norm = sum((each * each).sum() for each in found if each is not None)
        yield torch.autograd.grad(norm, **take) if norm.requires_grad else None
    yield torch.autograd.grad(total, inputs, allow_unused=True)
    try:
        yield torch.autograd.grad(total, inputs, allow_unused=True)
    except RuntimeError as error:
        yield str(error)[:60]


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor was made of, by one operator."""
    return tensor if tensor.grad_fn is None else tensor.grad_fn.next_functions[0][0].variable  # type: ignore[union-attr]


def flat(value: Any) -> list[Any]:
    return [item for each in value for item in flat(each)] if isinstance(value, tuple | list) else [value]


def observe(function: Callable[..., Any], make: Callable[[], Sequence[torch.Tensor]]) -> list[Any]:
    """All that could be seen of a call and its gradients."""
    torch.manual_seed(3)
    args = make()
    inputs = [leaf(each) for each in args if each.requires_grad]
    results = flat(function(*args))
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    seen: list[Any] = [each for each in results if not isinstance(each, torch.Tensor)]
    for each in tensors:
        seen += [each.detach().clone(), each.requires_grad, each.is_leaf, each._is_view(), each.stride()]
        seen.append([each is other for other in args])
    seen.append(torch.rand(1))
    for found in gradients([each for each in tensors if each.requires_grad], inputs):
        seen += flat(found)
    return [*seen, torch.rand(1), *(each.detach().clone() for each in args), *(each._version for each in args)]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        tolerance = 1e-5 if one.dtype is torch.float32 else 1e-2
        return one.dtype == other.dtype and torch.allclose(one, other, rtol=tolerance, atol=tolerance)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("function", "make"), CASES)
def test_a_graph_and_its_gradients(function, make):
    wanted = observe(function, make)
    run = compiled(function)
    for _ in range(2):
        got = observe(run, make)
        assert len(wanted) == len(got)
        assert [(i, *pair) for i, pair in enumerate(zip(wanted, got, strict=True)) if not same(*pair)] == []
    assert not {"graphs_compiled_each_time", "backend_failures"} & set(events.snapshot())


class Net(nn.Module):
    """A tied weight, buffers, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.out = nn.Embedding(7, 4), nn.BatchNorm1d(4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(F.dropout(self.norm(self.embed(tokens)), 0.5))


def test_a_module_trains():
    nets = [Net(), Net()]
    nets[1].load_state_dict(nets[0].state_dict())
    nets[0].load_state_dict(nets[1].state_dict())
    run, tokens = compiled(nets[1]), torch.tensor([1, 2, 5, 5])
    for _ in range(2):
        for net in (nets[0], run):
            torch.manual_seed(1)
            net(tokens).sum().backward()
    for of in (nn.Module.parameters, nn.Module.buffers):
        for one, other in zip(of(nets[0]), of(nets[1]), strict=True):
            assert same(one.grad, other.grad) if one.requires_grad else same(one, other)
            assert one._version == other._version


def test_each_gradient_lies_in_memory_of_its_own():
    plan = training.Plan(
        outputs=1,
        saved=[],
        sizes=[],
        tangents=[training.Tangent(0, "contiguous")],
        grads=[("kernel", 0), ("kernel", 0), ("kernel", 1), ("kernel", 2)],
        reach=[[0]] * 4,
        used=[],
        copied=[],
        written=[],
        draws=False,
        autocast="",
    )

    def backward(tangent):
        own = tangent * 2
        return [tangent, own, own.view(5)]

    kernel = training.Kernel(plan, lambda *inputs: [sum(inputs)], backward, lambda: None)
    for _ in range(2):
        inputs = [random(5) for _ in range(4)]
        given = torch.ones(5)
        found = torch.autograd.grad(kernel(*inputs)[0], inputs, given)
        assert len({each.untyped_storage()._cdata for each in (given, *found)}) == 5
        assert [each.tolist() for each in found] == [[1.0] * 5, [1.0] * 5, [2.0] * 5, [2.0] * 5]


def grown(x, w):
    y = (x @ w).relu()
    return (y * y.shape[0]).sum(0), y.reshape(-1)[: y.shape[0] * 2]


def test_sizes_that_vary():
    run, w = compiled(grown, dynamic=True), random(4, 5)
    for rows in (6, 7, 3):
        x = random(rows, 4)

        def take(function: Callable[..., Any], x: torch.Tensor = x) -> list[torch.Tensor]:
            some, others = function(x, w)
            return [some, others, *torch.autograd.grad(some.sin().sum() + others.cos().sum(), (x, w))]

        assert all(map(same, take(grown), take(run)))
    assert not {"graphs_compiled_each_time", "backend_failures"} & set(events.snapshot())


def waves(x):
    return x.sin().cos().sin()


@pytest.fixture(scope="module")
def run() -> Callable[..., Any]:
    """`waves`, compiled at its first call."""
    return compiled(waves)


def test_a_backward_frees_what_was_saved(run):
    for retain in (False, True):
        x = random(1000) * 1
        out, alive = run(x), weakref.ref(x)
        out.sum().backward(retain_graph=retain)
        del x
        assert (alive() is not None) == retain
        del out
        assert alive() is None


def test_a_saved_input_that_was_written_to_is_an_error(run):
    for function in (waves, run):
        x = random(5) * 1
        out = function(x)
        x.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_hooks_for_saved_tensors_and_checkpoints(run):
    x = random(5)
    wanted = torch.autograd.grad(waves(x).sum(), x, create_graph=True)[0]
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: packed.append(each) or each.clone(), lambda each: each):
        out = run(x * 1)
    found = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    assert packed
    assert same(wanted, found)
    assert same(*(torch.autograd.grad(each.sum(), x)[0] for each in (wanted, found)))
    out = checkpoint(run, x * 1, use_reentrant=False)
    assert same(wanted.detach(), torch.autograd.grad(out.sum(), x)[0])


def test_a_call_under_autocast_and_hooks():
    def product(x, w):
        return (x @ w).tanh()

    def take(function: Callable[..., Any]) -> list[torch.Tensor]:
        with (
            torch.autocast("cpu", dtype=torch.bfloat16),
            torch.autograd.graph.saved_tensors_hooks(lambda each: each, lambda each: each),
        ):
            out = function(x, w)
        found = torch.autograd.grad(out.float().sum(), (x, w), create_graph=True)
        return [out, *found, *torch.autograd.grad(found[0].sum(), (x, w))]

    x, w = random(3, 4), random(4, 4)
    assert all(map(same, take(product), take(compiled(product))))
    assert not {"graphs_compiled_each_time", "backend_failures"} & set(events.snapshot())


def spectrum(x, y):
    return (torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real @ y).relu()


def test_complex_numbers_within_a_half_are_stored():
    def take(function):
        x, y = random(3, 4), random(4, 4)
        return torch.autograd.grad(function(x, y).sum(), (x, y))

    torch.manual_seed(0)
    wanted = take(spectrum)
    torch.manual_seed(0)
    assert all(map(same, wanted, take(compiled(spectrum))))
    assert not {"graphs_compiled_each_time", "backend_failures"} & set(events.snapshot())


def rotates(x, n):
    n += 1
    z = torch.view_as_complex(x.view(3, 2, 2)) * torch.tensor([1j, 1 + 1j])
    return torch.view_as_real(z).flatten(1) * n, F.dropout(z.abs(), 0.5), x[0], z.detach() * 2


def aot_eager(module: torch.fx.GraphModule, inputs: list[torch.Tensor], config_patches: Any) -> Callable[..., Any]:
    """What inductor's ordinary path is but for kernels: AOTAutograd, with its own node of autograd."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop

    return aot_module_simplified(module, tuple(inputs), nop)  # type: ignore[no-any-return]


def test_what_no_stored_kernel_can_give(monkeypatch):
    from torch._functorch import config
    from torch._inductor import compile_fx

    monkeypatch.setattr(compile_fx, "compile_fx", aot_eager)
    make = lambda: ours(torch.zeros(4))  # noqa: E731
    wanted, run, before = observe(rotates, make), compiled(rotates), config.donated_buffer
    for _ in range(2):
        got = observe(run, make)
        assert [(i, *pair) for i, pair in enumerate(zip(wanted, got, strict=True)) if not same(*pair)] == []
    assert config.donated_buffer is before
    assert events.snapshot()["graphs_compiled_each_time"] == 1


def gradients_inside(x):
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = (x * 3).sin()
    return y, z


def test_what_is_run_eagerly():
    def inside(x, function=gradients_inside):
        with torch.no_grad():
            return function(x)

    def gaps(x, n):
        n.mul_(2)
        return x * n

    for function, other, make in (
        (inside, functools.partial(inside, function=compiled(gradients_inside)), ours),
        (gaps, compiled(gaps), lambda: ours(torch.ones(8)[::2])),
    ):
        assert all(map(same, observe(function, make), observe(other, make)))
    assert not {"graphs_compiled_each_time", "backend_failures"} & set(events.snapshot())
