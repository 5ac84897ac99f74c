"""Kernels: the same results cold and warm, no compiler in a warm process, and what their keys hold."""

from __future__ import annotations

import json
import operator
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from aotdyn.backends import inductor, making, registry, unbacked
from aotdyn.errors import BackendError
from aotdyn.graph import build, data
from aotdyn.graph.program import Input, Program, Ref, Step, locate
from aotdyn.store.store import Store

HERE = Path(__file__).resolve().parent

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")


def process(store: Path) -> dict[str, Any]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    argv = [sys.executable, HERE / "inductor_programs.py", store]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three kernels that a process has just compiled."""
    root = tmp_path_factory.mktemp("kernels")
    root.chmod(0o700)
    cold = process(root)
    assert cold["agree"] == [True] * 5
    assert cold["compiled"] == 3
    return root


@needs_compiler
def test_a_warm_process_loads_kernels_and_no_compiler(store):
    assert process(store) == {"agree": [True] * 5, "loaded": [], "compiled": 0}
    kernels = list(store.rglob("model.so"))
    assert len(kernels) == 3
    assert all((path.parent / "outer.graph").exists() for path in kernels)


@needs_compiler
def test_a_kernel_that_cannot_be_loaded_is_compiled_again(store, tmp_path, caplog):
    job = inductor.Job(program(), {}, None, None, locate)
    (tmp_path / "outer.graph").write_bytes(b"nonsense")

    class Broken(Store):
        def kernel_path(self, key: str) -> Path:
            return tmp_path

    job.store = Broken(None)
    assert job.load("key", []) is None
    assert len(caplog.records) == 1


def test_a_kernel_that_no_compile_makes_loadable_has_a_verdict(tmp_path, monkeypatch):
    made: list[dict[str, bytes]] = []

    def make(program: Program, inputs: Any, options: Any, scratch: Path, frozen: Any) -> making.Made:
        outer = Program([*program.inputs, Input("k0")], [], (Ref(1),))
        made.append({"outer.graph": data.encode(outer), "model.so": b"no library"})
        return making.Made(made[-1])

    monkeypatch.setattr(making, "make", make)
    tmp_path.chmod(0o700)
    for _ in range(2):
        run = registry.compile(program(), [torch.ones(3)], "inductor", None, Store(tmp_path))
        assert run(torch.ones(3))[0].tolist() == [2.0] * 3
    assert len(made) == 1


def test_a_stored_kernel_that_cannot_be_loaded_gives_way_to_another(tmp_path, monkeypatch):
    made: list[Any] = []
    key = inductor.kernel_key(program(), [torch.ones(3)], {})
    tmp_path.chmod(0o700)
    store = Store(tmp_path)
    store.save_kernel(key, {"outer.graph": b"nonsense"})
    monkeypatch.setattr(making, "make", lambda *args: made.append(args) or making.Made({"eager": b"because"}))
    for _ in range(2):
        registry.compile(program(), [torch.ones(3)], "inductor", None, store)
    assert len(made) == 1
    assert (store.kernel_path(key) / "eager").exists()


def program() -> Program:
    return Program([Input("x")], [Step(operator.add, (Ref(0), 1), {})], (Ref(1),))


def test_a_key_holds_what_a_kernel_depends_on():
    x = torch.randn(4, 4)

    def key(tensor: torch.Tensor, **options: Any) -> str:
        return inductor.kernel_key(program(), [tensor], options)

    keys = [key(x), key(x.t()), key(x.double()), key(torch.randn(4, 5)), key(x, max_autotune=True)]
    keys.append(key(torch.nn.Parameter(x)))
    with torch.no_grad():
        keys.append(key(x))
    with torch.autocast("cpu"):
        keys.append(key(x))
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    keys.append(key(x))
    torch.set_num_threads(threads)
    assert len(set(keys)) == len(keys)
    assert key(torch.randn(4, 4)) == keys[0]


def test_graphs_that_inductor_should_not_have_run_eagerly(tmp_path):
    class Sub(torch.Tensor):
        pass

    strided = Program([Input("x")], [Step(torch.as_strided, (Ref(0), (2,), (1,), 0), {})], (Ref(1),))
    views = Program([Input("x")], [Step("view", (Ref(0), -1), {})], (Ref(1), Ref(0)))
    sizes = Program([Input("x")], [Step(torch.max, (Ref(0), 0), {})], (Ref(1),))
    x = torch.randn(3, 3)
    assert registry.compile(program(), [x.as_subclass(Sub)], "inductor")(x)[0].shape == (3, 3)
    assert registry.compile(strided, [x[1:]], "inductor")(x)[0].tolist() == x[0, :2].tolist()
    assert registry.compile(sizes, [x], "inductor")(x)[0].values.tolist() == x.max(0).values.tolist()
    out, same = registry.compile(views, [x], "inductor")(x)
    assert out._base is x
    assert same is x


def test_gradients_that_no_kernel_can_give_go_through_inductors_own_path(monkeypatch):
    import torch._inductor.compile_fx as torch_inductor

    calls = []

    def fake(gm: torch.fx.GraphModule, inputs: list[torch.Tensor], config_patches: dict[str, Any]) -> Any:
        calls.append(config_patches)
        return gm.forward

    monkeypatch.setattr(torch_inductor, "compile_fx", fake)
    weight = torch.nn.Parameter(torch.randn(3, 3))
    complex_numbers = Program([Input("x")], [Step(operator.mul, (Ref(0), 1j), {})], (Ref(1),))
    run = registry.compile(complex_numbers, [weight], "inductor", {"max_autotune": True})
    assert run(weight)[0].requires_grad
    assert calls == [{"fallback_random": True, "max_autotune": True}]


@needs_compiler
def test_writes_through_lists_are_all_that_a_graph_does():
    steps = [Step(torch._foreach_mul_, ([Ref(0), Ref(1)], 0.5), {}), Step(torch._foreach_zero_, ([Ref(2)],), {})]
    lists = Program([Input("x"), Input("y"), Input("z")], steps, ())
    example = [torch.full((4,), value) for value in (8.0, 6.0, 4.0)]
    run = registry.compile(lists, example, "inductor", None, None, None)
    inputs = [torch.full((4,), value) for value in (8.0, 6.0, 4.0)]
    assert list(run(*inputs)) == []
    assert [tensor.tolist() for tensor in inputs] == [[4.0] * 4, [3.0] * 4, [0.0] * 4]
    assert [tensor._version for tensor in inputs] == [1, 1, 1]


def test_operators_that_write_through_lists_are_seen_to():
    mode = build.make_fake_mode()
    x, y, z = [build.fake_input(mode, torch.ones(4)) for _ in range(3)]
    with mode:
        torch._foreach_add_([x], [y])
        torch.split_copy(x, 4, out=[z])
        torch._foreach_add([x], [y])
    assert [tensor._version > 0 for tensor in (x, y, z)] == [True, False, True]


def test_one_kernel_for_unbacked_sizes_from_two_on():
    """Sizes 0 and 1, and layouts that aren't contiguous, have code of their own."""
    made = []

    def make(program, inputs):
        made.append((program.inputs[0], inputs[0].shape))
        return lambda *inputs: ("kernel", *inputs)

    program = Program([Input("x", (0,), (0,))], [Step("sum", (Ref(0), 0), {})], (Ref(1),))
    run = unbacked.FromTwoOn(program, make, lambda *inputs: ("few", *inputs))
    calls = [torch.ones(n, 3) for n in (1, 4, 0, 9)] + [torch.ones(3, 4).t()]
    assert [run(x)[0] for x in calls] == ["few", "kernel", "few", "kernel", "few"]
    assert made == [(Input("x", (0,)), (4, 3))]


def test_an_unknown_option_is_an_error():
    with pytest.raises(BackendError, match="no option 'no_such_option'"):
        registry.compile(program(), [torch.ones(3)], "inductor", {"no_such_option": 1})
