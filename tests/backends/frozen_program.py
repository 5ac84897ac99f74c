"""A module whose parameters are folded in: run as a script to print whether it is plain PyTorch's, whatever is written.

Run it with AOTDYN_FREEZE=1.
"""

from __future__ import annotations

import json
import sys

import torch
from torch import nn

import aotdyn
from aotdyn.report import events

COMPILERS = ("torch._dynamo", "torch._inductor", "sympy")


def main() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(4, 4), torch.randn(3, 4)
    run = aotdyn.compile(net, backend="inductor")
    agree = []
    with torch.no_grad():

        def look() -> None:
            agree.append(torch.allclose(run(x), net(x), rtol=1e-4, atol=1e-5))

        look()
        net.weight.data.mul_(2)  # moves no version
        look()
        net.weight.data.div_(2)
        look()
        net.bias.detach().numpy()[:] = 1
        look()
        run(x).fill_(7)
        look()
    loaded = [name for name in COMPILERS if name in sys.modules]
    print(json.dumps({"agree": agree, "loaded": loaded, "compiled": events.snapshot()["graphs_compiled"]}))


if __name__ == "__main__":
    main()
