"""Numbers in tensors: known ones, those that operators take for numbers, those asked for; symbols as indices."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import aotdyn

X = torch.linspace(1, 2, 12).reshape(3, 4)


def leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, (list, tuple)) else [value]


def check(f: Any, *args: Any, backend: str = "eager", **options: Any) -> None:
    compiled = aotdyn.compile(f, backend=backend, fullgraph=True, **options)
    for _ in range(2):
        for a, b in zip(leaves(f(*args)), leaves(compiled(*args)), strict=True):
            assert type(a) is type(b)
            torch.testing.assert_close(a, b)


def numbers_for_operators(x, y, s):
    z = x.clone().addcmul_(x, y, value=s)
    powers = torch._foreach_pow(s, [x, y])
    return z, powers, torch._foreach_lerp([x], [y], s), x.add(y, alpha=s), torch.addcdiv(x, x, y, value=s * 2)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_tensors_without_dimensions_for_numbers(backend):
    for s in (0.5, 2.0) if backend == "eager" else (2.0,):
        check(numbers_for_operators, X, X + 1, torch.tensor(s), backend=backend)


def test_gradients_beside_numbers_of_tensors():
    def f(x, y, s):
        return torch.addcmul(x, y, y, value=s).sum()

    x, y, s = X.clone().requires_grad_(), X.clone().requires_grad_(), torch.tensor(3.0)
    compiled = aotdyn.compile(f, backend="eager", fullgraph=True)
    for a, b in zip(
        torch.autograd.grad(f(x, y, s), [x, y]), torch.autograd.grad(compiled(x, y, s), [x, y]), strict=True
    ):
        assert torch.equal(a, b)
    with pytest.raises(TypeError):
        aotdyn.compile(f, backend="eager")(x, y, s.requires_grad_())


def known_numbers(x):
    i = torch.tensor(1)
    i += 1
    rows = [x, x + 1, x + 2]
    return rows[i], (5, 6, 7)[torch.as_tensor(1)], x * int(i), x + 9 if i > 1 else x, i.item(), float(i)


def test_numbers_of_tensors_made_of_constants():
    check(known_numbers, X)


def lists_of_numbers(x, i):
    a, b = i.tolist()
    return torch.split(x, [a, b]), i.sum().item(), i.reshape(1, 2).tolist()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_numbers_of_data_by_option(backend, monkeypatch):
    monkeypatch.setenv("AOTDYN_CAPTURE_SCALAR_OUTPUTS", "1")
    check(lists_of_numbers, X, torch.tensor([1, 2]), backend=backend)


def test_a_number_that_nobody_reads_is_not_asked_for(monkeypatch):
    monkeypatch.setenv("AOTDYN_CAPTURE_SCALAR_OUTPUTS", "1")
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    def f(x):
        y = x.sum()
        y.item()
        return y / x

    torch.testing.assert_close(aotdyn.compile(f, backend=backend, fullgraph=True)(X), f(X))
    assert "item" not in graphs[0].code


def by_sizes(a, b):
    n = b.size(0)
    a = a.clone()
    a[n - 2] = 7
    a[..., n - 3] += 1
    a[0, n - 1, None] = 3
    rest = a[1:, n - 3], a[n - 1, 1:3], a[-(n - 1)], a[n - 1, 0], a[0, n - 1], a[n - 1, None, ..., 2]
    return a[n - 1], a[:, n - 2], a[None, ..., n - 1], a[..., n - 1, :], a[n - 1, n - 2], *rest


def test_sizes_as_indices_stay_symbols():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    compiled = aotdyn.compile(by_sizes, backend=backend, fullgraph=True)
    for size in (5, 6, 7, 9):
        a, b = torch.randn(size, size), torch.ones(size)
        for plain, traced in zip(by_sizes(a, b), compiled(a, b), strict=True):
            assert torch.equal(plain, traced)
    assert len(graphs) == 2
    with pytest.raises(IndexError):
        aotdyn.compile(by_sizes, backend="eager")(torch.randn(5, 5), torch.ones(9))
