"""Numbers in tensors: known ones, those that operators take for numbers, those asked for; symbols as indices."""

from __future__ import annotations

import traceback
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


def by_numbers_in_tensors(x, i, j):
    y = x.clone()
    y[i] = 7
    y[:, j] += 1
    part = x[i]
    part.mul_(2)
    return x[i, j], x[None, ..., j], x[1:, j, None], y, x, part


def test_a_tensor_of_one_integer_is_an_index():
    compiled = aotdyn.compile(by_numbers_in_tensors, backend="eager", fullgraph=True)
    for i, j in ((0, 1), (2, -1), (-3, 3)):
        plain, traced = X.clone(), X.clone()
        index = torch.tensor(i), torch.tensor(j, dtype=torch.int32)
        results = by_numbers_in_tensors(plain, *index), compiled(traced, *index)
        for a, b in zip(*results, strict=True):
            assert torch.equal(a, b)
        assert torch.equal(plain, traced)
        assert results[1][-1]._base is traced


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_an_index_in_a_tensor_is_checked(backend):
    compiled = aotdyn.compile(lambda x, i: x[:, i] + 1, backend=backend, fullgraph=True)
    assert torch.equal(compiled(X, torch.tensor(-1)), X[:, -1] + 1)
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 1 with size 4"):
        compiled(X, torch.tensor(4))


def checked(x):
    assert x.min().item() > 0, f"bad {tuple(x.shape)}"
    n = (x > 1).sum().item()
    if n > x.numel() or torch.isnan(x).any():
        raise ValueError("no")
    torch._check((x < 9).all().item(), lambda: "large")
    assert n <= 12.0
    assert (x.max() * 2).item() - 0.5 != 17.0
    return torch.nn.functional.dropout(x, 0.5), x.sum().item() > 3


def outcome(f: Any, x: Any) -> Any:
    torch.manual_seed(0)
    try:
        result = [leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for leaf in f(x)]
    except (AssertionError, ValueError, RuntimeError) as error:
        result = [type(error), str(error).partition("\n")[0], traceback.extract_tb(error.__traceback__)[-1].line]
    return result, torch.rand(1).item()


def test_a_side_that_only_raises_is_a_check():
    compiled = aotdyn.compile(checked, backend="eager", fullgraph=True)
    for first in (1.0, -1.0, 2.0, float("nan"), 10.0, 8.75, 3.0):
        x = X.clone()
        x[0, 0] = first
        assert outcome(compiled, x) == outcome(checked, x)


def test_the_compiled_graph_has_the_check():
    def f(x):
        if (x < 0).any():
            raise ValueError("negative")
        return x * 2

    compiled = aotdyn.compile(f, backend="inductor", fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    with pytest.raises(ValueError, match="negative"):
        compiled(-X)


def handled(x):
    try:
        if x.min() < 0:
            raise ValueError
    except ValueError:
        x = -x
    return x + 1


def after_a_change(x):
    x.mul_(2)
    assert x.min() > 0
    return x + 1


def before_a_change(x):
    assert x.min() > 0
    x.mul_(2)
    return x + 1


@pytest.mark.parametrize("f", [handled, after_a_change, before_a_change])
def test_where_a_check_cannot_give_way(f):
    compiled = aotdyn.compile(f, backend="eager")
    for sign in (1, -1, 1):
        plain, traced = X * sign, X * sign
        found = []
        for function, x in ((f, plain), (compiled, traced)):
            try:
                found.append(function(x).tolist())
            except AssertionError:
                found.append(AssertionError)
        assert found[0] == found[1]
        assert torch.equal(plain, traced)


@pytest.mark.parametrize(
    ("f", "copies"),
    [
        (lambda x, i: ((x + 1)[i] * 2, x.sum()), True),
        (lambda x, i: (x[i] * 2, x), False),  # of an input: no copy of a table is made
        (lambda x, i: ((y := x + 1)[i].mul_(2), y), False),
        (lambda x, i: ((y := x + 1)[i], y), False),
        (lambda x, i: ((x + 1)[:, i], x), False),  # a copy would have other strides
    ],
)
def test_a_place_of_data_in_what_nobody_else_sees_is_copied(f, copies):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    index = torch.tensor(-2)
    for a, b in zip(f(X, index), aotdyn.compile(f, backend=backend, fullgraph=True)(X, index), strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
    assert ("index.Tensor" in graphs[0].code) is copies


def test_addresses_are_no_constants_of_a_variant(project):
    """A second process, where they are others, traces nothing."""
    project.write(
        "app.py",
        """
        import time
        import aotdyn, torch

        def compares(x):
            y = x * 2
            return y + 1 if y.data_ptr() != x.data_ptr() else y

        def reckons(x):
            y = x * 2
            begun = time.perf_counter_ns()
            z = y + x.data_ptr() % 1
            return z, time.perf_counter_ns() >= begun

        def keeps(x):
            seen = {x.data_ptr(): x * 2}
            return seen[x.data_ptr()] + 1, len(seen)

        kept = []
        for function in (compares, reckons, keeps):
            compiled = aotdyn.compile(function, backend="eager")
            for n in range(4):
                kept.append(torch.arange(3.0 + n))
                assert str(compiled(kept[-1])) == str(function(kept[-1]))
        print(aotdyn.stats()["traced"], aotdyn.stats()["process_local_variants"])
        """,
    )
    cold, warm = (project.python("app.py") for _ in range(2))
    assert not cold.returncode, cold.stderr
    assert warm.stdout.split() == ["0", "0"], (cold.stdout, warm.stderr)
