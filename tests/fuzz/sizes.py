"""Programs over sizes that vary: twenty calls with two random dimensions, in views, slices, ranges and conditions.

A variant made for one size must not serve another that it doesn't fit.
"""

from __future__ import annotations

from random import Random

from .write import Grammar, Writer, attempts

LEAVES = {
    "size": ("a", "b", "n", "x.shape[0]", "x.size(1)", "len(x)", "y.shape[0]", "x.shape[-1]", "2", "3"),
    "small": ("0", "1", "2", "3"),
    "pos": ("1", "2", "3"),
    "tensor": ("x", "x", "y"),
    "cond": ("a == b", "a > n", "b > 3"),
}

EXPRESSIONS = {
    "size": """
        <size> + <size>
        <size> - <small>
        <size> * <small>
        <size> // <pos>
        -(-<size> // 2)
        <size> % <pos>
        max(<size>, <size>)
        min(<size>, <small>)
        abs(<size> - <size>)
        x.numel()
        x.shape.numel() - <size>
        sum(x.shape)
        int(<size> / 2)
        (<size> if <cond> else <size>)
        divmod(<size>, 2)[1]
        len(range(<size>))
        <size> ** 2 % 5
        <size> << 1
        math.ceil(<size> / 3)
        twice(<size>)
        len(list(range(<size>))[1:])
        <tensor>.shape[0]
        <tensor>.stride(0)
        <tensor>.dim()
        total
    """,
    "cond": """
        <size> < <size>
        <size> == <size>
        <size> != <size>
        <size> < <size> <= <size>
        <size> % 2 == 0
        <size> in (2, 4)
        not <cond>
        <cond> and <cond>
        <cond> or <cond>
        x.shape == y.shape
        <tensor>.shape[0] == <size>
        <tensor>.numel() > <size>
        <tensor>.is_contiguous()
        bool(<size> - 2)
        x.sum() > <size>
    """,
    "tensor": """
        <tensor> + <size>
        <tensor> * <size>
        <tensor> + <size> / 2
        <tensor>.view(-1)
        <tensor>.reshape(-1)
        <tensor>.flatten()[:<size>]
        x.reshape(b, a)
        x.view(a * b)
        x.view(b, -1)
        x.view(1, *x.shape)
        x.reshape(<size>, <size>)
        x.unflatten(0, (<pos>, -1))
        <tensor>[:<size>]
        <tensor>[<size>:]
        <tensor>[-<size>:]
        x[:, :<size>]
        <tensor>[::2]
        <tensor>[<size> // 2:<size>]
        <tensor>[-1]
        <tensor>[min(<size>, 1)]
        <tensor>.unsqueeze(0)
        <tensor>.t()
        x.t().contiguous()
        x.unsqueeze(0).expand(<size>, a, b)
        x.expand(2, -1, -1)
        x.repeat(<small>, 1)
        x.narrow(0, 0, max(a - 1, 0))
        x.split(max(1, a // 2))[0]
        x.chunk(2, 1)[-1]
        x @ x.t()
        x + y.t()
        x @ y
        <tensor>.sum(0)
        <tensor>.mean() * <size>
        torch.arange(<size>)
        torch.arange(<size>, <size>)
        torch.arange(b) + x
        torch.zeros(<size>, b)
        torch.ones(a, b) * x
        torch.full((<size>,), <size>)
        torch.eye(<size>)
        torch.cat([x, x[:<size>]])
        torch.stack([<tensor>, <tensor>])
        torch.cat([<tensor>.flatten(), <tensor>.flatten()])
        x.new_zeros(<size>, 2)
        x.new_full(x.shape, <size>)
        torch.zeros_like(<tensor>)
        torch.nn.functional.pad(x, (0, <small>))
        x.roll(<size>, 0)
        x.triu(<small>)
        x.scatter_add(0, torch.zeros(a, b, dtype=torch.long), x)
        x.as_strided((<size>,), (1,))
        x.diagonal()
        x.softmax(<bit>)
        x[torch.arange(a)]
        x[:, torch.arange(b).flip(0)]
        x.index_select(0, torch.arange(max(a - 1, 0)))
        torch.where(torch.arange(b) < <size>, x, -x)
        clipped(<tensor>, <size>)
    """,
    "bit": "0\n1",
}

STATEMENTS = """
    out.append(<tensor>)
    out.append(<tensor>)
    out.append(<tensor>)
    out.append(<tensor>.shape)
    out.append(<size>)
    out.append((<size>, <cond>))
    out.append([0] * <size>)
    out.append(f'{<size.>}')
    out.append(list(range(<size>)))
    out.append({<size>: <size>})
    total += <size>
    total = <size>
    x = x + <size>
    x = x * 2
    x[:<size>] = <small>
    x[-1] += <size>
    x.view(-1)[:<size>] = 0
    if <cond>: out.append(<tensor>)
    if <cond>: return out
    out.append([x[i] for i in range(min(<size>, a))])
    out.extend(x.split(<pos>))
    out.extend(each + 1 for each in x.unbind(1))
    out.append([i for i in range(<size>) if i % 2])
    out.append('abcdefgh'[:<size>])
    out.append(sum(each.shape[0] for each in x.chunk(2)))
    out.append(math.sqrt(<size>))
    print(<size>)
    print(<cond>)
    aotdyn.graph_break()
    a, b = <tensor>.numel(), <size>
    n = <size>
    y = y[:, :]
    held.append(<size>)
    box.size = <size>
    box.rows = <tensor>
"""

BLOCKS = """
    if <cond>:
        <block>
    else:
        <block>
----
    for i in range(min(<size>, 4)):
        x = x + i
        <block loop size=i>
----
    for i in range(0, min(<size>, 6), 2):
        out.append(x[i:i + 2])
----
    for row in x[:3]:
        out.append(row * <size>)
----
    w<n> = 0
    while w<n> < min(<size>, 3):
        w<n> += 1
        <block loop size=w<n>>
----
    def f<n>(t, k=<size>):
        return t[:k] + k
    out.append(f<n>(<tensor>))
----
    try:
        <block>
    except (RuntimeError, IndexError) as error:
        out.append(type(error).__name__)
"""

HEADER = """
import math
import torch
import aotdyn
from differential import Turns, program

held = []


class Box:
    size = 0


box = Box()


def twice(k):
    return k * 2


def clipped(t, k):
    return t[:k] if k < t.shape[0] else t


def sized(a, b, n, flip):
    x = torch.arange(float(a * b)).reshape(b, a).t() if flip else torch.arange(float(a * b)).reshape(a, b)
    return x - 2, torch.ones(b, a), n


@program(Turns(
<arguments>
), calls=<calls>, graphs=False)
def generated(x, y, n):
    out = []
    total = 0
    a, b = x.shape
    <block main>
    return out, x, y, a, b, n, total
"""

GRAMMAR = Grammar(LEAVES, EXPRESSIONS, STATEMENTS, BLOCKS)
CALLS = 20


def _arguments(random: Random) -> str:
    """Sizes, most of them at least 2; equal dimensions, 0 and 1 now and then; at times only one of them varies."""
    sizes = (2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 1, 0)
    fixed, flips = random.randrange(3), random.randrange(8) == 0
    first, lines = sizes[random.randrange(8)], []
    for _ in range(CALLS):
        a, b, n = (sizes[random.randrange(12)] for _ in range(3))
        a = first if fixed == 1 else a
        b = first if fixed == 2 else b
        lines.append(f"    lambda: sized({a}, {b}, {n if random.randrange(3) else a}, {flips and b % 2 == 0}),")
    return "\n".join(lines)


def write_sized(random: Random) -> str:
    """The text of a module with one random program over sizes."""

    def once() -> str:
        return Writer(random, GRAMMAR).module(
            HEADER.replace("<arguments>", _arguments(random)).replace("<calls>", str(CALLS)), {"size": ["total"]}
        )

    return attempts(once)
