"""A training loop: autocast, a checkpointed block, a clipped step of SGD and a falling learning rate.

python -m aotdyn run -v --backend eager examples/train.py [steps]
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """A residual block; what it computes on the way is computed again for the gradients, and not kept."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + checkpoint(self.inner, x, use_reentrant=False)

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(self.norm(x))))


def train_step(
    net: nn.Module, optimizer: torch.optim.Optimizer, points: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """One step: the model in bfloat16 where that is safe, its loss, its gradients, and the optimizer's update."""
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = net(points)
    loss = F.mse_loss(found.float(), wanted)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), Block(32), Block(32), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(1, steps + 1):
        points = torch.rand(64, 2) * 4 - 2
        wanted = torch.sin(points[:, :1]) * torch.cos(points[:, 1:])
        loss = train_step(net, optimizer, points, wanted)
        schedule.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.6f}, learning rate {schedule.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
