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
def state_looked_at(x):
    s = random.getstate()
    a = random.random()
    return x * a, s[0], s == random.getstate()


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


OF_ANOTHER = random.Random(9).getstate()


@program(lambda: (torch.ones(3), random.Random(12)), calls=3, whole=True)
def made(x, given):
    own, named = random.Random(42), random.Random("name")
    y = x + given.randint(1, 9) + own.randint(1, 9) * named.random()
    return y, given.getstate(), own.getstate(), own is named


@program(calls=3, whole=True)
def states(x):
    before = random.getstate()
    random.seed(3)
    y = x * random.random()
    random.setstate(before)
    other = random.Random()
    other.setstate(OF_ANOTHER)
    RNG.seed("text")
    return y + random.random(), other.random(), RNG.random()


@program(calls=3, whole=True)
def chosen(x):
    return x * random.choice((0.5, 1.5)), random.choice([1, 2, 3]), random.choice(range(4, 9))


@program(calls=3)
def made_and_looked_at(x):
    own = random.Random(3)
    x = x + own.random()
    if own.random() < 2:
        x = x * own.random()
    own.note = "kept"
    return x, own.random(), own.note, own.gauss(0, 1)


@program(calls=3)
def chosen_of_others(x):
    return x * random.random(), random.choice(["a", "b"]), random.choice([1, 2.0]), random.choice([])


class Odd(random.Random):
    def random(self):
        return 0.25


@program(lambda: (torch.ones(3), Odd(1), random.Random(1)), calls=3)
def of_another_kind(x, odd, changed):
    changed.random = lambda: 0.5
    return x + odd.random() + changed.random() + changed.uniform(0, 1), odd.uniform(1, 2)


@program(calls=2)
def set_to_nonsense(x):
    y = x + 1
    try:
        random.setstate((3, (1, 2), None))
    except ValueError as error:
        return y, str(error)


@program(seeded, calls=3, whole=True)
def states_of_numpy(x):
    before = np.random.get_state()
    np.random.seed(3)
    y = x * np.random.rand()
    np.random.set_state(before)
    return y + np.random.rand(), np.random.RandomState(4).normal()


@program(seeded, calls=3, whole=True)
def drawn_arrays(x):
    new = np.random.default_rng(3)
    a, b = np.random.randn(2, 3), np.random.uniform(low=-1, high=1, size=(2, 1))
    a += 1
    y = x + torch.from_numpy(a) * torch.from_numpy(b)
    return y, a, b, new.normal(size=2), new.integers(0, 9, 4), np.random.permutation(5), new.random()


@program(seeded, calls=3, whole=True)
def tensors_of_drawn_arrays(x):
    a = np.random.uniform(low=-1, high=1, size=(3, 1))
    return x + torch.tensor(a).sum(), torch.tensor([a, a], dtype=torch.float64)


@program(seeded, calls=3)
def arrays_looked_at(x):
    a = np.random.rand(3)
    if a[0] < 2:
        x = x + 1
    return x, np.random.choice(4), np.random.shuffle(a), a, np.random.multivariate_normal([0, 0], np.eye(2))


@program(lambda: (torch.tensor([[[5]]]), torch.tensor(7), np.ones((2, 1))), calls=2, whole=True)
def tensors_of_parts(one, none, array):
    double = torch.tensor([array, [[1], [2]]])
    return torch.tensor([one, one]), torch.tensor([none, one]), double, torch.tensor([array], dtype=torch.float32)


@program(lambda: (torch.ones(2), np.array(3)), calls=2)
def tensors_of_what_is_no_number(x, array):
    y = x + 1
    try:
        return torch.tensor([x, x])
    except ValueError as error:
        text = str(error)
    try:
        return torch.tensor([array, array])
    except TypeError as error:
        return y, text, str(error)
