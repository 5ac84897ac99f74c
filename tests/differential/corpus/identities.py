"""Identity: `id()` to tell objects apart, and what rests on it: `copy.deepcopy`, `dataclasses.asdict`."""

import copy
import dataclasses

import torch
from differential import loud as print
from differential import program


class Node:
    pass


class Reduced(Node):
    def __reduce__(self):
        return Reduced, ()


@dataclasses.dataclass
class Data:
    x: object
    items: list = dataclasses.field(default_factory=list)


def tensor():
    return (torch.arange(6.0).reshape(2, 3),)


@program(tensor, whole=True)
def addresses_compared(x):
    a, b = [x], [x]
    return id(a) == id(b), id(a) == id(a), id(a) != id(b), id(x) == id(a[0]), x + 1


@program(tensor, whole=True)
def addresses_as_keys(x):
    a, b = [1], [1]
    table = {id(a): a, id(b): b, "kept": id(x)}
    return table[id(b)] is b, next(iter(table)) == id(a), id([]) in {id(a)}, table["kept"] == id(x), x + len(table)


def nodes_that_repeat(state=[0]):  # noqa: B006
    state[0] += 1
    node = Node()
    return torch.ones(2), [node, node] if state[0] % 2 else [node, Node()]


@program(nodes_that_repeat, calls=4)
def visited_by_address(x, nodes):
    seen = set()
    for node in nodes:
        if id(node) not in seen:
            seen.add(id(node))
            x = x * 2 + 1
    return x, len(seen)


def kept_addresses(state=[0]):  # noqa: B006
    state[0] += 1
    node = Node()
    return torch.ones(2), node, {70001: "large"} if state[0] % 2 else {1: "small"}


@program(kept_addresses, calls=4)
def addresses_from_outside(x, node, known):
    return x + 1, known.get(id(node), "unknown"), {70000: 1}.get(id(node)), id(node) in [1, 2]


@program(tensor, durable=False)
def addresses_looked_at(x):
    a = [x]
    print(id(a) > 0, isinstance(id(a), int), bool(id(a)), f"{id(a)}".isdigit(), id(a) == 5, id(a) % 1)
    return x + 1


@program(tensor, whole=True)
def copies_of_made_containers(x):
    a = [1, {"k": [x.shape[0], (2, 3), ("a", [4])]}]
    a.append(a)
    b = copy.deepcopy(a)
    b[1]["k"].append(x + 1)
    return a[:2], b[:2], b[2] is b, b[1]["k"][1] is a[1]["k"][1], b[1]["k"][2][1] is a[1]["k"][2][1]


@program(lambda: (torch.ones(2), {"a": [1], "b": (1, [2])}))
def copies_of_arguments(x, config):
    mine = copy.deepcopy(config)
    mine["a"].append(len(config["b"][1]))
    return x + len(mine["a"]), mine, mine["b"][1] is config["b"][1]


@program(tensor, whole=True)
def copies_of_tensors(x):
    made = {"t": x + 1, "u": [x * 2]}
    made["v"] = made["t"]
    copied = copy.deepcopy(made)
    copied["t"].add_(1)
    return made, copied, copied["v"] is copied["t"], copied["t"] is made["t"]


@program(tensor)
def copies_of_views_and_inputs(x):
    y = x * 2
    made = [y[0], y, x]
    return copy.deepcopy(made), y


@program(tensor, whole=True)
def copies_of_objects(x):
    node = Node()
    node.items, node.itself, node.x = [1], node, x + 1
    deep, shallow = copy.deepcopy(node), copy.copy(node)
    deep.items.append(2)
    return node.items, deep.items, deep.itself is deep, shallow.items is node.items, deep.x, type(shallow) is Node


@program(tensor)
def copies_by_the_class(x):
    node = Reduced()
    node.kept = 1
    return hasattr(copy.copy(node), "kept"), x + 1


@program(tensor, whole=True)
def data_as_dicts(x):
    data = Data(x + 1, [1, Data(2)])
    return dataclasses.asdict(data), dataclasses.astuple(data), dataclasses.replace(data, x=3).items is data.items


class Marked:
    pass


@program(tensor)
def copies_before_the_class_changes(x):
    node = Marked()
    other = copy.copy(node)
    Marked.shared = x + 1
    return other is node, Marked.shared


class MarkedFirst:
    pass


@program(tensor)
def copies_after_the_class_changes(x):
    MarkedFirst.shared = x + 1
    node = MarkedFirst()
    return copy.copy(node) is node, MarkedFirst.shared
