"""A program under inductor: run as a script, `python end_to_end.py`, to print what differs from plain Python."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import aotdyn
from aotdyn.report import events

COMPILERS = ("torch._dynamo", "torch._inductor", "sympy")
COLD = """
    backends.called backends.context backends.failures backends.fresh backends.jobs backends.joint backends.making
    backends.packages graph.build graph.scopes guards.fast guards.kinds runtime.explain runtime.limit
"""
"Modules of ours that compile, or say why a call is traced again."

CONSTANT = torch.arange(4.0)


def many(a, b, flags, empty, q):
    """Writes to an input; gives inputs, views, constants, numbers, random numbers, results of library operators."""
    a.add_(b)
    b[:, 1] = 3
    fresh = a * b + CONSTANT + torch.tensor([1.0, 2.0, 3.0, 4.0])
    one, other = a * 1, b * 2
    torch._foreach_add_([one, other], [other, one])
    attended = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return (
        *(a, a.view(-1), b.t(), fresh, fresh[0], fresh + 1, fresh + 1, b.contiguous(), torch.ones(3)),
        *(torch.where(flags, a.long() // 2, -1), flags.any(), torch.cat([empty * 2, b]), empty.sum(), one, other),
        *(F.dropout(a, 0.5), torch.rand(3), attended, fresh.max(1), a.argmax(), (a.shape[0], None, "text")),
    )


def many_args():
    torch.manual_seed(5)
    transposed = torch.arange(12.0).view(4, 3).t()
    flags = torch.arange(12).view(3, 4) % 3 == 0
    return torch.ones(3, 4), transposed, flags, torch.empty(0, 4), torch.randn(1, 2, 8, 4)


class Net(nn.Module):
    """Parameters that require grad, whatever the grad mode is."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(F.relu(self.norm(self.conv(x)))).mean((2, 3)))


def shifted(a, b):
    """Right for inputs that overlap only if it's done in this order."""
    b.copy_(a * 2)
    return b + a


def shifted_args(apart: bool):
    base = torch.arange(4000.0)
    return (base[:2000].clone() if apart else base[:2000]), base[1:2001]


def train(net, x):
    return net(x).sin().sum()


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [item for each in value for item in flat(each)]
    return [value]


def observe(run: Callable[..., Any], args: Any) -> list[Any]:
    """All that a caller could see of a call, and of writing to its results afterwards."""
    torch.manual_seed(3)
    results = flat(run(*args))
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    inputs = [each for each in args if isinstance(each, torch.Tensor)]
    seen = [each for each in results if not isinstance(each, torch.Tensor)]
    seen += [torch.rand(1).item(), *(each.detach().clone() for each in (*tensors, *inputs))]
    every = [*tensors, *inputs]
    seen += [[one is other, storage(one) == storage(other)] for one in every for other in every]
    for each in tensors:
        seen.append((each.dtype, each.requires_grad, each.grad_fn is None, each._is_view()))
        if not each.requires_grad and each.is_floating_point():
            each.fill_(7)
    return [*seen, *(each.clone() for each in inputs)]


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    return one == other


def agree(plain: Callable[..., Any], compiled: Callable[..., Any], args: Callable[[], Any]) -> bool:
    wanted, got = observe(plain, args()), observe(compiled, args())
    return len(wanted) == len(got) and all(map(same, wanted, got))


def infer() -> dict[str, bool]:
    result = {}
    compiled = aotdyn.compile(many)
    result["many"] = all(agree(many, compiled, many_args) for _ in range(2))
    attended = compiled(*many_args())[17]
    result["written"] = attended.mul_(nn.Parameter(torch.ones(1))).requires_grad
    torch.manual_seed(1)
    net = Net().eval()
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        result["net"] = agree(net, aotdyn.compile(net), lambda: (x,))
    compiled = aotdyn.compile(shifted)
    apart = (True, False, True)
    result["overlap"] = all(agree(shifted, compiled, lambda each=each: shifted_args(each)) for each in apart)
    return result


def learn() -> dict[str, bool]:
    torch.manual_seed(1)
    nets = [Net(), Net()]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(2, 3, 8, 8)
    for run, net in zip((train, aotdyn.compile(train)), nets, strict=True):
        for _ in range(2):
            torch.manual_seed(3)
            run(net, x).backward()
    state = [[*net.state_dict().values(), *(each.grad for each in net.parameters())] for net in nets]
    return {"train": all(map(same, *state)), "grow": grow()}


def widen(x, w):
    y = (x @ w).relu()
    return (y * y.shape[0]).sum(0), y.reshape(-1)[: y.shape[0] * 2]


def grow() -> bool:
    """A graph whose backward needs sizes, for several of them."""
    run, w = aotdyn.compile(widen, dynamic=True), torch.randn(4, 5, requires_grad=True)

    def take(function: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
        some, others = function(x, w)
        return [some, others, *torch.autograd.grad(some.sin().sum() + others.cos().sum(), (x, w))]

    given = [torch.randn(rows, 4, requires_grad=True) for rows in (6, 7, 3)]
    return all(all(map(same, take(widen, x), take(run, x))) for x in given)


if __name__ == "__main__":
    done = learn() if sys.argv[1:] == ["learn"] else infer()
    loaded = [name for name in COMPILERS if name in sys.modules]
    cold = [name for name in COLD.split() if f"aotdyn.{name}" in sys.modules]
    print(json.dumps({"agree": done, "loaded": loaded, "cold": cold, **events.snapshot()}))
