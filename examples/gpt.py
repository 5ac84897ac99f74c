"""A small GPT: learns characters of Python's own standard library, then writes some.

python -m aotdyn run --backend eager examples/gpt.py [steps [tokens]]
"""

import inspect
import math
import string
import sys

import torch
from torch import nn
from torch.nn import functional as F

CHARACTERS = sorted(string.printable)
WINDOW = 32


class Attention(nn.Module):
    """Causal self-attention, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project_in(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward net, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.feed_forward(self.norms[1](x))


class GPT(nn.Module):
    """Tokens (batch, length) to logits (batch, length, characters), and the loss where targets are given."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Embedding(WINDOW, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(CHARACTERS), bias=False)

    def forward(
        self, tokens: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def text() -> torch.Tensor:
    """The sources of two modules of the standard library, as indices of CHARACTERS."""
    source = inspect.getsource(string) + inspect.getsource(inspect)
    index = {character: i for i, character in enumerate(CHARACTERS)}
    return torch.tensor([index[character] for character in source if character in index])


def batch(data: torch.Tensor, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(data) - WINDOW - 1, (size, 1)) + torch.arange(WINDOW)
    return data[starts], data[starts + 1]


@torch.no_grad()
def generate(model: GPT, prompt: str, count: int) -> str:
    """Append `count` characters, each the likeliest one: the sequence grows by one a step."""
    model.eval()
    tokens = torch.tensor([[CHARACTERS.index(character) for character in prompt]])
    for _ in range(count):
        logits, _ = model(tokens[:, -WINDOW:])
        tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
    return "".join(CHARACTERS[i] for i in tokens[0].tolist())


def main(steps: int = 20, count: int = 6) -> None:
    torch.manual_seed(0)
    data = text()
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        inputs, targets = batch(data)
        _, loss = model(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step}: loss {loss.item():.2f}")
    print(repr(generate(model, "def ", count)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
