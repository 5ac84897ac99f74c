"""Comparisons of builtins with their subclasses: whose method is asked, and in which order."""

import collections
import operator

import torch
from differential import program


class OwnList(list):
    pass


class Unequal(list):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


class OwnDict(dict):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


class OwnInt(int):
    pass


PAIRS = [
    *(([1], OwnList([2])), (OwnList([2]), [1]), (OwnList([1]), OwnList([2])), ([1], Unequal([1])), (Unequal([1]), [1])),
    *(
        (Unequal([1]), Unequal([1])),
        ({"a": 1}, OwnDict(a=1)),
        (OwnDict(a=1), {"a": 1}),
        (1, OwnInt(2)),
        (OwnInt(2), 1.5),
    ),
    *((collections.Counter("ab"), {"a": 1, "b": 1}), ({"a": 1, "b": 1}, collections.Counter("ab")), ((1,), [1])),
]


@program(lambda: (torch.ones(2, 3),), whole=True)
def comparisons_with_builtin_subclasses(x):
    found = []
    for a, b in PAIRS:
        for compared in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            try:
                found.append(compared(a, b))
            except TypeError as error:
                found.append(str(error))
    return x + 1, found


@program(lambda: (torch.ones(2, 3),), graphs=False)
def a_counter_beside_a_dict_of_tensors(x):
    return collections.Counter("ab") == {"a": x, "b": 1}
