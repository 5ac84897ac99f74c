"""`print` and text of numbers of data, deferred to behind the graph; loggers that don't log."""

# (what is written the long way is what is tested)

import contextlib
import io
import logging
import sys

import torch
from differential import program


@program(whole=True)
def consts(x):
    y = x + 1
    print("hello", 1, None, [1, 2], x.shape, sep="-", end="!\n", flush=True)
    print()
    print(x.dtype, y.shape[0], (1, "a"), {"k": 1}, True, 2.5, file=sys.stdout)
    return y * 2


@program(whole=True)
def err(x):
    print("to stderr", file=sys.stderr)
    print("none", file=None)
    return x + 1


@program(whole=True)
def tens(x):
    y = x * 2
    print(y, x)
    z = y + 1
    print("z", z)
    return z


@program()
def mutated_after(x):
    y = x * 2
    print(y)
    y += 1
    return y


@program()
def grads(x):
    w = torch.ones(2, 3, requires_grad=True)
    y = (x * w).sum()
    print(y)
    print(w)
    return y


@program()
def loop(x):
    for i in range(5):
        x = x + i
        print("step", i)
    return x


def layer(x, i):
    print("layer", i)
    return x * i


@program(whole=True)
def calls(x):
    return layer(x, 1) + layer(x, 2)


@program()
def redirected(x):
    buf = io.StringIO()
    print("before")
    with contextlib.redirect_stdout(buf):
        print("inside")
        y = x + 1
    print("after")
    return y, buf.getvalue()


@program(graphs=False)
def errors(x):
    r = []
    try:
        print("a", sep=1)
    except TypeError as e:
        r.append(str(e))
    try:
        print("a", end=b"")
    except TypeError as e:
        r.append(str(e))
    try:
        print("a", bad=3)
    except TypeError as e:
        r.append(str(e))
    return x + 1, r


class Loud:
    def write(self, s):
        GOT.append(s)

    def flush(self):
        pass


GOT = []


@program()
def own_stream(x):
    y = x + 1
    print("mine", file=Loud())
    old, sys.stdout = sys.stdout, Loud()
    try:
        print("own")
        y = y * 2
        GOT.append("between")
        print("own2")
    finally:
        sys.stdout = old
    return y, list(GOT)


@program()
def raises_then(x):
    print("a")
    y = x.new_zeros(3)
    x.add_(1)
    print("b")
    return y[torch.tensor([5])]


@program()
def branch(x):
    print("start")
    if x.sum() > 100:
        print("no")
    else:
        print("yes")
    return x + 1


@program(whole=True)
def number(x):
    v = (x * 2).sum().item()
    print(v, f"loss: {v:.3f}", f"{v!r:>9} {x.shape[0]}|", "a" + f"{v}")
    return x + 1


@program()
def number_used(x):
    v = (x * 2).sum().item()
    s = f"{v:.2f}"
    if s == "6.00":
        return x + 1
    return x - 1


@program(whole=True)
def number_text(x):
    v = (x * 2).sum().item()
    return x + 1, f"a{v:.2f}b", str(v), repr(v), format(v, "e")


log = logging.getLogger("aotdyn_corpus")
log.setLevel(logging.ERROR)


class Mine(logging.Logger):
    def isEnabledFor(self, level):
        return level == 10 and False


mine = Mine("q")
ad = logging.LoggerAdapter(log, {})


@program(whole=True)
def off(x):
    log.debug("a %s", x)
    log.info("b")
    log.warning("c")
    log.log(20, "d")
    if log.isEnabledFor(logging.INFO):
        x = x * 3
    return x + 1


@program()
def on(x):
    y = x + 1
    log.error("a %s", 3)
    return y * 2


@program()
def own(x):
    mine.debug("z")
    return x + 1


@program()
def adapter(x):
    ad.debug("z")
    return x + 1


@program(lambda: (torch.arange(6),))
def kinds(x):
    v = x.sum().item()
    b = (x.sum() > 3).item()
    return x + 1, isinstance(v, bool), isinstance(b, bool), type(v).__name__, v, b, f"{v}{b}"
