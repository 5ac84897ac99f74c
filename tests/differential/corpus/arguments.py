"""Arguments that don't fit the parameters: what CPython says, and in which order it looks."""

import functools
import itertools

import torch
from differential import program


def one(p):
    pass


def defaults(p, q=1):
    pass


def keyword_only(p, *, k, m=1):
    pass


def positional_only(p, q, /, r):
    pass


def nothing():
    pass


CALLS = [
    *((one, (1, 2), {}), (one, (1, 2), {"z": 1}), (one, (), {}), (one, (1,), {"p": 1})),
    *((defaults, (1, 2, 3), {}), (defaults, (), {}), (nothing, (1,), {}), (nothing, (1, 2), {})),
    *((keyword_only, (1, 2), {"k": 1}), (keyword_only, (1, 2, 3), {"k": 1, "m": 2}), (keyword_only, (), {})),
    *((positional_only, (), {"p": 1, "q": 2, "r": 3}), (positional_only, (1,), {"q": 2, "r": 3})),
    *((positional_only, (1, 2, 3, 4), {"q": 2}), (positional_only, (), {"z": 1, "q": 2})),
]


@program(lambda: (torch.ones(2, 3),), whole=True)
def calls_that_do_not_fit(x):
    found = []
    for function, args, kwargs in CALLS:
        try:
            found.append(function(*args, **kwargs))
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


ITERATING = [zip, functools.partial(map, abs), enumerate, itertools.zip_longest, sum, max, sorted, list, dict, set]


@program(lambda: (torch.ones(2, 3),))
def what_does_not_iterate(x):
    found = []
    for function in ITERATING:
        try:
            found.append(function(1))
        except TypeError as error:
            found.append(str(error))
    return x + 1, found
