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


LOG = []


class Loud:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        LOG.append((self.name, other.name))
        return self.name == other.name

    def __lt__(self, other):
        LOG.append((self.name, "<", other.name))
        return "less"

    __hash__ = None


def louds(*names):
    return [Loud(name) for name in names]


@program(lambda: (torch.ones(2, 3),), whole=True)
def containers_ask_their_items_in_order(x):
    found = []
    for kind in (list, tuple, collections.deque):
        for left, right in (("a", "ab"), ("ab", "ac"), ("ba", "ca"), ("", "a")):
            a, b = kind(louds(*left)), kind(louds(*right))
            found += [a == b, a != b, a < b]
    return x + 1, found, list(LOG)


@program(lambda: (torch.ones(2, 3),), whole=True)
def dicts_ask_their_values_in_order(x):
    found = []
    for left, right in (("ab", "a"), ("ab", "ac"), ("ba", "ab"), ("ab", "ab")):
        for kind in (dict, collections.OrderedDict):
            a, b = (kind(zip(names, louds(*names))) for names in (left, right))
            found += [a == b, a != b]
    return x + 1, found, list(LOG)


@program(lambda: (torch.ones(2, 3),))
def a_dict_that_differs_behind_what_has_no_truth(x):
    try:
        return {"a": 1, "c": x} == {"a": x + 1, "b": 2}
    except RuntimeError as error:
        return str(error)


@program(lambda: (torch.ones(2, 3),), whole=True)
def a_list_of_another_length_of_what_has_no_truth(x):
    return x + 1, [x, 1] == [x + 1], {"a": x} == {"a": x + 1, "b": 1}, {"c": x + 1} == {"b": x}
