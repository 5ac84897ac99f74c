"""A small GPT: learns characters of Python's own standard library, then writes some.

python -m aotdyn run --backend eager --stats gpt.json examples/gpt.py [steps [tokens]]

Sizes vary in both halves: the last batch of an epoch is smaller than the
others, and each step of the generation attends to one token more. Each
function is traced twice, once for its first sizes and once for all, as
`recompiles` in gpt.json shows; a second run traces nothing.
"""

import inspect
import math
import string
import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

CHARACTERS = sorted(string.printable)
WINDOW = 96

Past = tuple[torch.Tensor, torch.Tensor] | None


class Attention(nn.Module):
    """Causal self-attention, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, past: Past) -> tuple[torch.Tensor, Past]:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project_in(x).chunk(3, dim=-1)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        seen = k.shape[2]
        future = torch.ones(length, seen, dtype=torch.bool, device=x.device).triu(seen - length + 1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width)), (k, v)


class Block(nn.Module):
    """Attention and a feed-forward net, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, past: Past = None) -> tuple[torch.Tensor, Past]:
        mixed, present = self.attention(self.norms[0](x), past)
        x = x + mixed
        return x + self.feed_forward(self.norms[1](x)), present


class GPT(nn.Module):
    """Tokens (batch, length) to logits (batch, length, characters), with what each block attended to."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Embedding(WINDOW, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(CHARACTERS), bias=False)

    def forward(self, tokens: torch.Tensor, past: list[Past] | None = None) -> tuple[torch.Tensor, list[Past]]:
        start = 0 if past is None else past[0][0].shape[2]
        x = self.tokens(tokens) + self.positions(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        present = []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, None if past is None else past[i])
            present.append(kept)
        return self.head(self.norm(x)), present

    def step(self, tokens: torch.Tensor, past: list[Past]) -> tuple[torch.Tensor, list[Past]]:
        """The same for tokens that follow those in `past`."""
        return self(tokens, past)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits, _ = self(tokens)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def text() -> torch.Tensor:
    """The sources of two modules of the standard library, as indices of CHARACTERS."""
    source = inspect.getsource(string) + inspect.getsource(inspect)
    index = {character: i for i, character in enumerate(CHARACTERS)}
    return torch.tensor([index[character] for character in source if character in index])


def batches(data: torch.Tensor, length: int = 32, size: int = 8, windows: int = 20) -> Iterator[torch.Tensor]:
    """Epochs of `windows` windows each, (batch, length + 1): the last batch of an epoch is what is left."""
    while True:
        starts = torch.randint(len(data) - length - 1, (windows, 1)) + torch.arange(length + 1)
        yield from data[starts].split(size)


@torch.no_grad()
def generate(model: GPT, prompt: str, count: int) -> Iterator[str]:
    """`count` characters that follow, as they come, drawn by their odds; what was attended to is kept, and grows."""
    model.eval()
    tokens = torch.tensor([[CHARACTERS.index(character) for character in prompt]])
    logits, past = model(tokens)
    for _ in range(count):
        tokens = torch.multinomial(logits[:, -1].softmax(-1), 1)
        yield CHARACTERS[tokens.item()]
        logits, past = model.step(tokens, past)


def main(steps: int = 20, count: int = 6) -> None:
    torch.manual_seed(0)
    data = text()
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, windows in zip(range(steps), batches(data)):
        loss = model.loss(windows[:, :-1], windows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step}: loss {loss.item():.2f}")
    print(repr("def " + "".join(generate(model, "def ", count))))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
