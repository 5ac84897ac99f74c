"""What programs do around hooked code: processes, threads, copies, other tracers, plugins, patches, reloads."""

from __future__ import annotations

import json
from typing import Any

LIBRARY = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).relu() + scale(x)

    def scale(x):
        return x * 2

    def summed(x):
        y = x * 2
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(y)
            y = y / torch.distributed.get_world_size() + torch.distributed.get_rank()
        return y.relu()

    def task(i):
        torch.manual_seed(0)
        return Net()(torch.full((2, 3), float(i))).sum().item()
"""

PLUGIN = """
    import lib

    def twice(x):
        return lib.scale(lib.scale(x)).sin()
"""

PROGRAM = """
    import asyncio, atexit, concurrent.futures, copy, importlib, importlib.metadata, inspect, io, multiprocessing
    import cProfile, pickle, signal, sys, warnings
    import torch
    import lib

    warnings.simplefilter("ignore")

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return lib.scale(torch.full((2,), float(i)))

    def show(name, *values):
        print(name, *(round(v, 4) if isinstance(v, float) else v for v in values), flush=True)

    def main():
        torch.set_num_threads(1)
        torch.manual_seed(0)
        net, x = lib.Net(), torch.ones(2, 3)
        show("first", net(x).sum().item())
        for context in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1, multiprocessing_context=context)
            show(context, [batch.sum().item() for batch in loader])
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            show("pool", pool.map(lib.task, range(2)))
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            show("threads", [round(each, 4) for each in threads.map(lambda i: net(x * i).sum().item(), range(8))])

        async def later(i):
            await asyncio.sleep(0)
            return net(x + i).sum().item()

        async def all():
            return await asyncio.gather(*(later(i) for i in range(3)))

        show("asyncio", [round(each, 4) for each in asyncio.run(all())])
        signal.signal(signal.SIGALRM, lambda *_: show("signal", lib.scale(x).sum().item()))
        signal.raise_signal(signal.SIGALRM)
        atexit.register(lambda: show("atexit", net(x).sum().item()))
        again = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        show("copies", *(each(x).sum().item() for each in (*again, torch.load(file, weights_only=False))))
        show("script", torch.jit.script(net)(x).sum().item(), torch.jit.trace(net, (x,))(x).sum().item())
        show("fx", len(torch.fx.symbolic_trace(net).graph.nodes), len(torch.export.export(net, (x,)).graph.nodes))
        show("vmap", torch.func.vmap(net)(x).sum().item(), torch.func.grad(lambda y: net(y).sum())(x).sum().item())
        profile = cProfile.Profile()
        show("profile", profile.runcall(net, x).sum().item())
        with torch.profiler.profile() as seen:
            net(x)
        show("profiler", any("mul" in each.key for each in seen.key_averages()))
        for plugin in importlib.metadata.entry_points(group="lib.plugins"):
            show("plugin", plugin.name, plugin.load()(x).sum().item(), plugin.load()(x).sum().item())
        from torch.testing._internal.distributed.fake_pg import FakeStore

        for ranks in (0, 3, 0):
            if ranks:
                torch.distributed.init_process_group("fake", store=FakeStore(), rank=ranks - 1, world_size=ranks)
            show("ranks", *(lib.summed(x).sum().item() for _ in range(2)))
            if ranks:
                torch.distributed.destroy_process_group()
        lib.scale = lambda y: y * 5
        show("patched", net(x).sum().item())
        lib.Net.forward = lambda self, y: y - 1
        show("patched class", net(x).sum().item())
        importlib.reload(lib)
        torch.manual_seed(0)
        show("reloaded", lib.Net()(x).sum().item(), net(x).sum().item())
        space = {"torch": torch, "x": x}
        exec("def f(y):\\n    return (y + x).sin()\\nr = f(x)", space)
        show("exec", space["r"].sum().item())
        show("source", "relu" in inspect.getsource(lib.Net.forward), inspect.signature(lib.scale))

    if __name__ == "__main__":
        main()
"""


def test_the_same_in_every_way(project: Any) -> None:
    project.write("lib.py", LIBRARY)
    project.write("app.py", PROGRAM)
    project.write("plug.py", PLUGIN)
    project.write("plug-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    project.write("plug-1.0.dist-info/entry_points.txt", "[lib.plugins]\nplug = plug:twice\n")
    plain = project.python("app.py")
    assert plain.returncode == 0, plain.stderr
    assert "plugin plug" in plain.stdout
    for way in ("cold", "warm"):
        done = project.run("--backend", "eager", "--stats", f"{way}.json", "app.py")
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        stats = json.loads((project.folder / f"{way}.json").read_text())
        assert stats["graph_calls"] > 10
        assert stats["guards_dropped"] == 0
    assert stats["traced"] == 0
