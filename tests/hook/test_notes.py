"""What torch tells TorchDynamo waits for it: programs that have no use for torch._dynamo don't import it."""

from __future__ import annotations

import json

import pytest
import torch

from aotdyn.rewrite import steps

OPTIMIZERS = [name for name in torch.optim.__all__ if isinstance(getattr(torch.optim, name), type)]

TRAIN = """
    import sys, torch
    from torch.utils.checkpoint import checkpoint
    torch.manual_seed(0)

    def train(name, model, optimizer):
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            optimizer.step()
        print(name, [p.detach().sum().item() for p in model.parameters()])

    for name in NAMES:
        model = torch.nn.Linear(3, 3)
        train(name, model, getattr(torch.optim, name)(model.parameters(), lr=0.1))
    open("imported.txt", "w").write(str("torch._dynamo" in sys.modules))
"""


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - {"Optimizer"}))
def test_each_step_of_torchs_is_known(name):
    code = getattr(torch.optim, name).step.__code__
    assert (steps.without_breaks(code) is not code) == ("graph_break" in code.co_names)


def test_another_step_stays():
    def decorate(func):
        def step(*args):
            import torch._dynamo

            torch._dynamo.graph_break()
            return func(*args)

        return step

    code = decorate(None).__code__
    assert steps.without_breaks(code) is code


def test_optimizers_and_a_warm_process(project):
    names = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adamax"]
    project.write("main.py", TRAIN.replace("NAMES", str(names)))
    plain = project.python("main.py")
    assert (project.folder / "imported.txt").read_text() == "True"
    limit = ("--backend", "eager", "--stats", "s.json", "main.py")
    env = {"AOTDYN_RECOMPILE_LIMIT": "64"}
    for traced in (True, False):
        done = project.run(*limit, env=env)
        assert done.stdout == plain.stdout, done.stderr
        stats = json.loads((project.folder / "s.json").read_text())
        assert bool(stats["traced"]) == traced
        assert stats["tensor_calls_captured"] > 100
        assert (project.folder / "imported.txt").read_text() == str(traced)


def test_an_error_in_a_step_shows_torchs_lines(project):
    project.write(
        "main.py",
        """
        import torch, traceback
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        try:
            optimizer.step(lambda: 1 / 0)
        except ZeroDivisionError:
            traceback.print_exc()
        """,
    )
    plain, hooked = project.python("main.py"), project.run("--backend", "eager", "main.py")
    assert "in _use_grad" in plain.stderr
    assert hooked.stderr == plain.stderr


def test_torchdynamo_is_told_when_it_comes(project):
    project.write(
        "main.py",
        """
        import sys, torch

        @torch.compiler.allow_in_graph
        def noted(x):
            return x + 1

        @torch.compiler.assume_constant_result
        def fixed():
            return 3

        hidden = torch._disable_dynamo(lambda x: x * 2)
        parts = [hidden(torch.ones(1)).item(), torch._disable_dynamo()(fixed)()]
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.step()
        print(parts, noted.__name__, torch.compiler.allow_in_graph([len, noted]) == [len, noted])
        before = "torch._dynamo" in sys.modules

        graphs = []
        def backend(graph, inputs):
            graphs.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
            return graph

        @torch.compile(backend=backend)
        def f(x):
            y = noted(x) * fixed()
            return hidden(y) + 1

        print(f(torch.ones(2)).tolist(), len(graphs), ["noted" in str(graph) for graph in graphs])
        wrapped = torch.optim.Optimizer.add_param_group.__wrapped__
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
        print(vars(wrapped)["__dynamo_disable"] is wrapped)
        print("graph_break" in torch.optim.Adam.step.__code__.co_names)
        open("imported.txt", "w").write(str(before))
        """,
    )
    plain = project.python("main.py")
    assert plain.returncode == 0, plain.stderr
    assert (project.folder / "imported.txt").read_text() == "True"
    hooked = project.run("--backend", "eager", "--keep-torch-compile", "main.py")
    assert hooked.stdout == plain.stdout, hooked.stderr
    assert (project.folder / "imported.txt").read_text() == "False"


def test_what_cannot_be_noted_is_refused_at_once(project):
    project.write(
        "main.py",
        """
        import torch
        for wrong in (3, [print, 3]):
            try:
                torch.compiler.allow_in_graph(wrong)
            except AssertionError as error:
                print(error)
        """,
    )
    plain, hooked = project.python("main.py"), project.run("--backend", "eager", "main.py")
    assert plain.stdout.count("callable") == 2
    assert hooked.stdout == plain.stdout


def test_a_step_that_breaks_inside(project):
    project.write(
        "main.py",
        """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(2, 3)).sum()
            loss.backward()
            return loss
        def step():
            return optimizer.step(closure)
        for _ in range(3):
            print(step().item(), model.bias.item())
        """,
    )
    plain = project.python("main.py")
    for _ in range(2):
        hooked = project.run("--backend", "eager", "main.py")
        assert (hooked.stdout, hooked.stderr) == (plain.stdout, "")


def test_torch_compile_of_what_calls_a_stub(project):
    project.write(
        "main.py",
        """
        import torch
        def g(x):
            return x + 1
        for _ in range(5):
            g(torch.ones(1))
        def h(x):
            return g(x) * 2
        print(torch.compile(h, backend="eager", fullgraph=True)(torch.ones(2)))
        """,
    )
    done = project.run("--backend", "eager", "--keep-torch-compile", "main.py")
    assert done.stdout == "tensor([4., 4.])\n", done.stderr[-2000:]


@pytest.mark.parametrize("call", ["allow_in_graph()", "allow_in_graph(print, 1)", "assume_constant_result(fn2=3)"])
def test_a_wrong_call_is_refused_in_torchs_words(project, call):
    body = f"import torch\ntry:\n    torch.compiler.{call}\nexcept TypeError as error:\n    print(error)\n"
    project.write("main.py", body)
    assert project.run("--backend", "eager", "main.py").stdout == project.python("main.py").stdout != ""
