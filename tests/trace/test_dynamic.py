"""Sizes that vary: constants first, symbols from the first miss on a size alone; results are plain Python's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import aotdyn
from aotdyn.errors import UserError
from aotdyn.runtime.entry import Entry, entries

from .results import same


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path / "cache"))


class Compiled:
    """A function compiled with the eager backend, and its entries."""

    def __init__(self, function: Any, **options: Any) -> None:
        before = set(entries)
        self.function = function
        self.call = aotdyn.compile(function, backend="eager", **options)
        self.entries: list[Entry] = [entry for entry in entries if entry not in before]

    def check(self, *args: Any) -> None:
        """A call gives what plain Python gives."""
        same(self.call(*args), self.function(*args))

    @property
    def variants(self) -> list[Any]:
        return [variant for entry in self.entries for variant in entry.variants]

    def relations(self, i: int = -1) -> list[str]:
        """SHAPE guards of a variant, with what their names stand for put in."""
        from aotdyn.guards.kinds import relation_text
        from aotdyn.guards.sources import Env, decode_sources

        variant = self.variants[i]
        env = Env((), {}, sources=decode_sources(variant.sources))
        return [relation_text(guard.expected, env) for guard in variant.guards if guard.kind == "SHAPE"]


def tensor(*sizes: int) -> torch.Tensor:
    return torch.arange(float(math.prod(sizes))).reshape(sizes)


def arithmetic(x):
    n, m = x.shape
    flat = x.view(-1)[: n * m // 2]
    return flat.sum() / max(n, 1) + float(n > 1), (n + m) % 3, n / m, -n, n**2, divmod(n, 3), min(n, m, 7)


def shapes(x):
    y = x.repeat(2, 1).unsqueeze(0)
    return y, list(y.shape), {"rows": x.size(0), "count": x.numel()}, x.shape[0], tuple(x.size()), len(x)


def branches(x):
    if x.shape[0] % 8 == 0:
        return x * 2
    if x.shape[0] > 20:
        return x - 1
    return x + x.shape[0]


def specialised(x):
    total = 0
    for i in range(x.shape[0]):
        total = total + x[i] * i
    return total, f"{x.shape[0]} rows", [0] * x.shape[0], {x.shape[0]: 1}, "%d" % x.shape[0]  # noqa: UP031


def functions(x):
    n = x.shape[0]
    rounded = math.floor(n / 2), math.ceil(n / 3), math.sqrt(n)
    return rounded, sum([n, n + 1]), int(n), float(n), isinstance(n, int), abs(-n)


def broadcast(x, y):
    return x + y, x.shape[0] == y.shape[0]


def slices(x):
    n = x.shape[0]
    return x[n // 2 :], x[: n - 1], x[-1], x[1:n:2], torch.cat([x, x])[n:], x.new_zeros(n + 1), torch.arange(n)


@pytest.mark.parametrize("function", [arithmetic, shapes, functions, slices])
def test_two_variants_serve_all_sizes(function):
    f = Compiled(function)
    for n in (8, 9, 10, 33, 5, 2, 64):
        f.check(tensor(n, 4))
    assert len(f.variants) == 2
    assert f.relations() == ["x.shape[0] >= 2"] or function is slices


@pytest.mark.parametrize("function", [arithmetic, shapes, functions, branches, slices, specialised])
def test_sizes_zero_and_one_and_both_dims(function):
    f = Compiled(function)
    for n, m in ((8, 4), (1, 4), (9, 4), (9, 7), (3, 3), (1, 1), (5, 1), (2, 2)):
        f.check(tensor(n, m))


def test_only_what_moved_is_symbolic():
    f = Compiled(lambda x: x.sum(0) + x.shape[1])
    f.check(tensor(8, 4))
    f.check(tensor(9, 4))
    expected = next(guard.expected for guard in f.variants[-1].guards if guard.kind == "TENSOR")
    assert expected["shape"] == [None, 4]
    assert expected["stride"] == [4, 1]
    f.check(tensor(9, 5))
    assert f.relations() == ["x.shape[0] >= 2", "x.shape[1] >= 2", "x.stride(0) == x.shape[1]"]
    f.check(tensor(5, 9).t())
    f.check(tensor(7, 6))
    assert len(f.variants) == 4


def test_branches_are_guarded_in_their_simplest_form():
    f = Compiled(branches)
    for n in (9, 10, 16, 24, 25, 26, 11, 32, 7):
        f.check(tensor(n, 2))
    assert len(f.variants) == 4
    texts = {text for i in range(1, 4) for text in f.relations(i)}
    assert {"x.shape[0] % 8 != 0", "x.shape[0] % 8 == 0", "x.shape[0] <= 20", "x.shape[0] >= 21"} <= texts


def test_equal_sizes():
    f = Compiled(broadcast)
    for n, m in ((4, 4), (5, 5), (6, 6), (1, 6), (6, 1), (7, 7)):
        f.check(tensor(n, 3), tensor(m, 3))
    assert "y.shape[0] == x.shape[0]" in f.relations(1) or "x.shape[0] == y.shape[0]" in f.relations(1)


def test_ints_that_move_become_symbols():
    f = Compiled(lambda x, n: (x * n, n + 1, x[:n], n // 2, n))
    for n in (3, 4, 5, 6, 2**40, 7):
        f.check(tensor(8), n)
    assert len(f.variants) == 3  # 2**40 is past the end of the slice
    for n in (1, 0, -3, True, 8):
        f.check(tensor(8), n)


def test_int_attributes_of_objects_but_not_of_modules():
    class Counter:
        steps = 0

    def f(counter, x):
        counter.steps += 1
        return x * counter.steps

    compiled, counter = Compiled(f), Counter()
    counter.steps = 4
    for n in range(5, 12):
        result = compiled.call(counter, tensor(3))
        assert counter.steps == n
        torch.testing.assert_close(result, tensor(3) * n)
    assert len(compiled.variants) == 2

    class Layer(nn.Module):
        def __init__(self, index):
            super().__init__()
            self.index = index

        def forward(self, x):
            return x * self.index

    def run(layer, x):
        return layer(x)

    g = Compiled(run)
    for i in range(2, 6):
        g.check(Layer(i), tensor(3))
    assert not any(variant.moving for variant in g.variants)


def test_dynamic_true_and_false():
    f = Compiled(shapes, dynamic=True)
    for n in (8, 9, 10):
        f.check(tensor(n, 4))
    assert len(f.variants) == 1
    f = Compiled(shapes, dynamic=False)
    for n in (8, 9, 10):
        f.check(tensor(n, 4))
    assert len(f.variants) == 3


def test_marks():
    f = Compiled(shapes)
    x = tensor(8, 4)
    aotdyn.mark_dynamic(x, 0, min=2, max=16)
    f.check(x)
    assert f.relations() == ["x.shape[0] >= 2", "x.shape[0] <= 16"]
    f.check(tensor(9, 4))
    assert len(f.variants) == 1
    f.check(tensor(17, 4))
    assert len(f.variants) == 2

    f, x = Compiled(specialised), tensor(8, 4)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(UserError, match=r"x\.shape\[0\] was marked as dynamic.*constant 8"):
        f.call(x)
    f, x = Compiled(specialised), tensor(8, 4)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    f.check(x)

    f = Compiled(arithmetic)
    for n in (8, 9, 10):
        x = tensor(n, 4)
        torch._dynamo.mark_static(x, 0)
        f.check(x)
    assert len(f.variants) == 3


def test_parameters_stay_static():
    f = Compiled(lambda x, w: x @ w)
    for n in (3, 4, 5):
        f.check(tensor(2, n), nn.Parameter(tensor(n, 2)))
    assert not any(None in guard.expected["shape"] for v in f.variants for guard in v.guards if guard.kind == "TENSOR")


def test_views_of_a_growing_buffer():
    f, buffer = Compiled(lambda x: (x.sum(1), x.shape[1], x.transpose(0, 1).reshape(-1))), tensor(4, 32)
    for n in range(3, 12):
        f.check(buffer[:, :n])
    assert len(f.variants) == 2


def test_kept_across_a_break():
    def f(x):
        n = x.shape[0] + 1
        aotdyn.graph_break()
        return x.sum() + n, n

    f = Compiled(f)
    before = set(entries)
    for n in (8, 9, 10, 11):
        f.check(tensor(n, 4))
    assert len(f.variants) == 2
    assert all(len(entry.variants) <= 2 for entry in set(entries) - before)


def test_gradients():
    layer = nn.Linear(4, 3)

    def f(x):
        return layer(x).pow(2).mean()

    compiled = Compiled(f)
    for n in (8, 9, 10, 11):
        grads = []
        for run in (f, compiled.call):
            layer.zero_grad()
            run(tensor(n, 4)).backward()
            grads.append(layer.weight.grad)
        torch.testing.assert_close(*grads)
    assert len(compiled.variants) == 2


def detached_view(x):
    """A view that wants no gradient, of a tensor that has one."""
    x.retain_grad()
    x.sum().backward()
    return x.detach()[:-1]


@pytest.mark.parametrize(
    "make",
    [lambda x: x, nn.Parameter, lambda x: x * 2, lambda x: detached_view(x).requires_grad_()],
    ids=["leaf", "parameter", "retained", "view"],
)
def test_inputs_that_have_gradients(make):
    """A gradient has the sizes of its tensor: they are no facts of their own."""

    def f(y):
        return (y * 2).sum(0), y.shape[0] * 3, y.grad

    compiled = Compiled(f)
    for n in (3, 4, 5, 6):
        y = make(torch.ones(n, 2, requires_grad=True))
        y.retain_grad()
        y.pow(3).sum().backward()
        compiled.check(y)
    assert len(compiled.variants) == (4 if make is nn.Parameter else 2)  # of parameters sizes are constants


class Block(nn.Module):
    """A transformer of one layer that generates."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv, self.out = nn.Embedding(17, 8), nn.Linear(8, 24), nn.Linear(8, 17)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.embed(tokens)
        q, k, v = self.qkv(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length).tril().bool()
        scores = (q @ k.transpose(-2, -1) / math.sqrt(4)).masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, 8))[:, -1]


def test_generation_settles():
    model = Block().eval()
    f = Compiled(lambda tokens: model(tokens))
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        for _ in range(8, 40):
            expected = model(tokens)
            found = f.call(tokens)
            torch.testing.assert_close(found, expected)
            tokens = torch.cat([tokens, expected.argmax(-1, keepdim=True)], 1)
    assert len(f.variants) == 2


def test_the_reason_names_the_size():
    f = Compiled(shapes)
    f.check(tensor(8, 4))
    assert f.entries[0].explain((tensor(9, 4),)) == ["`x.shape[0]` was 8, is 9"]
    f.check(tensor(9, 4))
    assert f.entries[0].explain((tensor(1, 4),))[-1] == "`x.shape[0] >= 2` held, doesn't with x.shape[0] = 1"


def padded(x):
    n = (8 - x.shape[1] % 8) % 8
    return torch.nn.functional.pad(x, (0, 0, 0, n, 0, 0)), torch.nn.functional.pad(x, (0, -1, n, 1), value=2.0)


def test_padding_by_a_size():
    f = Compiled(padded)
    for n in (12, 11, 9, 13, 15):
        f.check(tensor(2, n, 3))
    assert len(f.variants) == 2
    assert not any(variant.breaks for variant in f.variants)
    f = Compiled(lambda x: torch.nn.functional.pad(x, (1, 1, 0, 1), "constant", 0.5) + torch.rot90(x).sum())
    for n in (12, 11, 9, 13, 15):
        f.check(tensor(n, 3, 4))
    assert len(f.variants) == 2


def test_operators_whose_own_code_knows_no_symbols():
    from torch.nn import functional as F

    def f(x):
        small = F.interpolate(x, size=(5, 5), mode="bilinear"), F.interpolate(x, scale_factor=2.0)
        return *small, torch.fft.rfft2(x), F.bilinear(x, x, x.new_ones(2, 4, 4))

    f = Compiled(f)
    for n in (3, 4, 5):
        f.check(tensor(n, 3, 4, 4))
    assert len(f.variants) == 2
    assert not any(variant.breaks for variant in f.variants)


def test_swinging_between_shapes_makes_no_variant_twice():
    f = Compiled(branches)
    for _ in range(4):
        for n in (8, 9, 30, 1):
            f.check(tensor(n, 2))
    made = len(f.variants)
    for n in (8, 9, 30, 1) * 3:
        f.check(tensor(n, 2))
    assert len(f.variants) == made <= 5


def test_tensors_of_sizes():
    def f(x):
        n, m = x.shape
        table = torch.tensor([[n, m], [m, 2]]), torch.as_tensor(x.shape), torch.tensor((n, 0.5))
        return (
            table,
            torch.tensor(n > 20),
            torch.tensor(n / 2, dtype=torch.float64),
            torch.tensor([n], dtype=torch.int32),
        )

    f = Compiled(f)
    for n in (8, 9, 10, 21, 20):
        f.check(tensor(n, 3))
    assert len(f.variants) == 3


def test_the_limit_is_told_once(caplog):
    f = Compiled(shapes, dynamic=False)
    for n in [*range(2, 14), *range(2, 14)]:
        f.check(tensor(n, 4))
    assert len(f.variants) == 8
    warnings = [record.getMessage() for record in caplog.records if "recompile_limit" in record.getMessage()]
    assert len(warnings) == 1
    assert "`x.shape[0]` was 2, 3, 4, 5, 6, 7, 8 and 9, is 10" in warnings[0]
    assert "dynamic=None or True" in warnings[0]


PROGRAM = """
    import json
    import torch
    import aotdyn

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.out = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x, cache, scale):
            cache = torch.cat([cache, self.mix(x)], 1)
            weights = (x @ cache.transpose(1, 2) / scale).softmax(-1)
            return self.out(weights @ cache) * cache.shape[1], cache

    torch.manual_seed(0)
    torch.set_num_threads(1)
    step = Step()
    compiled = aotdyn.compile(step)
    x, cache = torch.ones(1, 1, 4), torch.ones(1, 3, 4)
    with torch.no_grad():
        for scale in range(4, 12):
            expected, grown = step(x, cache, scale)
            found, other = compiled(x, cache, scale)
            torch.testing.assert_close((found, other), (expected, grown))
            x, cache = expected, grown
    counts = aotdyn.stats()
    print(json.dumps([counts["traced"], counts["graphs_compiled"]]))
"""


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_second_process_knows_what_moves(project, backend):
    project.write("app.py", PROGRAM)
    runs = [project.python("app.py", env={"AOTDYN_BACKEND": backend}) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    assert [run.stdout.strip() for run in runs] == ["[2, 2]", "[0, 0]"]


def test_what_was_learnt_outlives_the_process(project):
    text = """
        import sys
        import torch
        import aotdyn

        f = aotdyn.compile(lambda x: (x * 2, x.shape[0]))
        for n in map(int, sys.argv[1:]):
            assert f(torch.ones(n, n))[1] == n
        print(aotdyn.stats()["traced"])
    """
    project.write("app.py", text)
    sizes = [("8", "9"), ("10", "11", "1"), ("1", "12")]
    runs = [project.python("app.py", *each, env={"AOTDYN_BACKEND": "eager"}) for each in sizes]
    assert [run.stdout.strip() for run in runs] == ["2", "1", "0"], runs[0].stderr
