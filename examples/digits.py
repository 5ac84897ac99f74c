"""A convolutional net, trained and evaluated on scikit-learn's handwritten digits.

python -m aotdyn run --backend eager examples/digits.py [epochs]
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    """Two convolutions with batch norm, and a linear classifier on 8x8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.classify = nn.Linear(16 * 2 * 2, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(images))), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.classify(self.drop(x.flatten(1)))


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """All 1797 images, shuffled, as (N, 1, 8, 8) in [0, 1], and their digits."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return images[order], labels[order]


def train_step(net: Net, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def accuracy(net: Net, images: torch.Tensor, labels: torch.Tensor) -> float:
    net.eval()
    right = (net(images).argmax(1) == labels).float().mean()
    net.train()
    return right.item()


def main(epochs: int = 3) -> None:
    torch.manual_seed(0)
    images, labels = load()
    train, test = slice(0, 1408), slice(1408, None)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(epochs):
        total = torch.zeros(())
        for start in range(train.start, train.stop, 64):
            batch = slice(start, start + 64)
            total += train_step(net, optimizer, images[batch], labels[batch])
        right = accuracy(net, images[test], labels[test])
        print(f"epoch {epoch}: loss {total.item() / 22:.2f}, accuracy {right:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
