"""Models that the benchmarks run: small, so that what stands around the operators shows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A function of two tensors."""
    return x + y


def sequential(layers: int) -> nn.Sequential:
    """Linear layers in a row."""
    return nn.Sequential(*(nn.Linear(8, 8) for _ in range(layers))).eval()


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.mix(x).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.drop(self.out(y.transpose(1, 2).reshape(rows, length, width)))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.between = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):
    """A decoder of six blocks: 79 modules, 77 parameters."""

    def __init__(self, width: int = 32, heads: int = 4, blocks: int = 6, words: int = 64, length: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
