"""Training programs of several processes: data loaders with workers, and DistributedDataParallel on two ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

LOADING = """
    import sys

    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset


    class Waves(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            x = torch.linspace(0, 1, 4) * (i + 1)
            return x, torch.sin(x).sum(0, keepdim=True)


    def train_step(net, optimizer, x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()


    def main():
        torch.manual_seed(0)
        torch.set_num_threads(1)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for start in ("fork", "spawn"):
            loader = DataLoader(Waves(), batch_size=4, num_workers=1, multiprocessing_context=start)
            print(start, [f"{train_step(net, optimizer, x, y):.6f}" for x, y in loader])


    if __name__ == "__main__":
        main()
"""


def test_data_loaders_with_workers(project: Any) -> None:
    project.write("app.py", LOADING)
    plain = project.python("app.py")
    assert plain.returncode == 0, plain.stderr
    for way in ("cold", "warm"):
        done = project.run("--backend", "eager", "--stats", f"{way}.json", "app.py")
        assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
        found = json.loads((project.folder / f"{way}.json").read_text())
        assert found["graph_calls"] > 0
        assert (found["traced"] > 0) == (way == "cold")


PARALLEL = """
    import copy
    import json
    import os
    import sys

    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    import aotdyn


    def train_step(net, optimizer, x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x).tanh(), y)
        loss.backward()
        optimizer.step()
        return loss.item()


    def train(net, step, rank):
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        draw = torch.Generator().manual_seed(rank)
        losses = []
        for _ in range(3):
            x = torch.randn(4, 3, generator=draw)
            losses.append(step(model, optimizer, x, x.sum(1, keepdim=True)))
        return losses, [each.tolist() for each in model.parameters()]


    def main(rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        plain = train(copy.deepcopy(net), train_step, rank)
        compiled = train(net, aotdyn.compile(train_step, backend="eager"), rank)
        found = aotdyn.stats()
        print(json.dumps([plain == compiled, compiled[1], found["traced"], found["graph_calls"]]))
        dist.barrier()
        dist.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)  # at times a thread of gloo's ends the interpreter's own exit by std::terminate


    if __name__ == "__main__":
        main(int(sys.argv[1]))
"""


def ranks(project: Any, way: str) -> list[Any]:
    """What each of the two processes prints."""
    meeting = str(project.folder / way)
    running = [
        subprocess.Popen(
            [sys.executable, "app.py", str(rank), meeting],
            cwd=project.folder,
            env=project.environment({}),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    done = [(process, *process.communicate(timeout=240)) for process in running]
    for process, _, err in done:
        assert process.returncode == 0, err
    return [json.loads(out.splitlines()[-1]) for _, out, _ in done]


def test_data_parallel(project: Any) -> None:
    project.write("app.py", PARALLEL)
    for way in ("cold", "warm"):
        found = ranks(project, way)
        assert all(same and calls > 0 for same, _, _, calls in found), found
        assert found[0][1] == found[1][1], "the ranks have come apart"
        if way == "warm":
            assert [traced for _, _, traced, _ in found] == [0, 0]
