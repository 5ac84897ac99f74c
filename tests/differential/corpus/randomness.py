"""Numbers of `random`, drawn in order; the generators are left as plain Python leaves them."""

# (the old functions are what is tested)

import random

import numpy as np
import torch
from differential import program

RNG = random.Random(7)
STATE = np.random.RandomState(5)


class Holder:
    def __init__(self):
        self.rng = random.Random(3)


H = Holder()


@program(whole=True, calls=4)
def floats(x):
    return x * random.random() + random.uniform(-1, 2), random.gauss(0, 1), random.random() * 2 + 1


@program(whole=True, calls=3)
def more(x):
    a = random.normalvariate(1.0, 2)
    b = random.betavariate(1, 2)
    c = random.expovariate(1.5)
    d = random.triangular(0, 1)
    return x + a, x * b - c, d, random.randint(1, 6), random.randrange(10), random.getrandbits(8)


@program(whole=True, calls=3)
def instance(x):
    return x * RNG.random() + H.rng.gauss(1, 2), RNG.uniform(0, 1)


@program(calls=6)
def compared(x):
    if random.random() < 0.5:
        return x + 1
    return x * random.random()


@program(calls=3)
def indexed(x):
    i = random.randint(0, 1)
    return x[i] + random.random(), random.choice([1, 2, 3])


@program(calls=3)
def state(x):
    y = x * random.random()
    s = random.getstate()
    a = random.random()
    random.setstate(s)
    b = random.random()
    random.seed(5)
    return y + a - b, random.random(), a == b


@program(calls=3)
def shuffled(x):
    items = [1, 2, 3, 4]
    random.shuffle(items)
    return x + items[0], random.sample(items, 2), random.random()


@program(calls=3)
def guarded(x):
    try:
        y = x[torch.tensor([0])]
        r = random.random()
        return y * r
    except IndexError:
        return x


@program(calls=3)
def behind(x):
    r = random.random()
    y = x * r
    return y[torch.tensor([7])]


@program(whole=True, calls=3)
def dropped(x):
    random.random()
    return x + 1


@program(calls=3)
def loop(x):
    for _ in range(3):
        x = x + random.random()
    return x


@program(calls=3, whole=True)
def printed(x):
    r = random.uniform(0, 10)
    print(r, f"{r:.3f}")
    return x + r


@program(calls=3)
def bad(x):
    y = x + 1
    try:
        random.randint(5, 1)
    except ValueError as e:
        return y, str(e)


@program(calls=3, whole=True)
def only_random(x):
    return random.random(), x + 1


def seeded():
    np.random.seed(3)
    return (torch.ones(2, 3),)


@program(seeded, calls=3, whole=True)
def of_numpy(x):
    state = STATE.normal()
    return x * np.random.rand() + np.random.uniform(-1, 1), np.random.normal(), np.random.randint(5), state


@program(seeded, calls=3)
def arrays_of_numpy(x):
    y = x * np.random.rand()
    drawn = np.random.rand(2)
    return y + 1, drawn.tolist(), np.random.rand()


@program(calls=3)
def brk(x):
    a = random.random()
    y = x * a
    torch._dynamo.graph_break()
    return y + a, random.random()


@program(lambda: (torch.ones(3), torch.arange(3)), calls=3)
def integers(x, n):
    drawn = random.randint(1, 9)
    y = (x + drawn) * drawn - random.randrange(5) / x
    return y, n + 1, drawn, n * random.randint(1, 3), x ** random.randint(2, 3)


@program(calls=3, whole=True)
def integers_of_floats(x):
    return x + random.randint(1, 9), 3 - x * random.getrandbits(4)


@program(calls=3)
def checked_and_drawn(x):
    total = x.sum().item()
    assert total < 1000
    drawn = random.random()
    print("total", total, drawn)
    return x * drawn


@program(calls=3, whole=True)
def drawn_in_calls(x):
    def inner(y):
        return y + random.uniform(0, 1)

    return [inner(x) for _ in range(3)], random.random()


@program(calls=3)
def drawn_before_a_break(x):
    a = random.random()
    y = x * a
    b = random.random() if y.sum() > -100 else 0
    return y + b
