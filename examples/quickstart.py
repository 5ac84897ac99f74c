"""One function with a graph break.

python examples/quickstart.py
python -m aotdyn run -v examples/quickstart.py     # twice: the second process traces nothing
"""

import torch


def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A tensor program that looks at its data half-way: one graph before the branch, one behind it."""
    hidden = torch.tanh(x @ weight)
    hidden = hidden - hidden.mean(dim=1, keepdim=True)
    if hidden.abs().max() > 1:  # depends on data: Python decides, and what follows is captured in its turn
        hidden = hidden / hidden.abs().max()
    return torch.nn.functional.softmax(hidden * 2, dim=1)


def main() -> None:
    torch.manual_seed(0)
    weight = torch.randn(16, 4)
    for scale in (0.01, 1.0, 10.0):
        result = step(torch.randn(8, 16) * scale, weight)
        print(f"scale {scale:5.2f}: largest share {result.max().item():.4f}, sum {result.sum().item():.4f}")


if __name__ == "__main__":
    main()
