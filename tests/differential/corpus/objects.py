"""Objects across breaks: containers mutated, aliased and returned; new instances; cycles; arguments written."""

import collections
import dataclasses
import enum
import typing

import torch
from differential import loud as print
from differential import program


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(typing.NamedTuple):
    a: typing.Any
    b: typing.Any = 5


@dataclasses.dataclass
class Data:
    x: typing.Any
    items: list = dataclasses.field(default_factory=list)
    color: Color = Color.RED


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: typing.Any
    n: int = 3


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left, right=None):
        self.left, self.right = left, right


class Node:
    def __init__(self, value):
        self.value = value
        self.next = self
        self.children = []

    def add(self, value):
        child = Node(value)
        child.next = self
        self.children.append(child)
        return child


class Stack(list):
    def __init__(self, items=()):
        super().__init__(items)
        self.pushed = 0

    def push(self, item):
        self.pushed += 1
        self.append(item)


class Registry(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.last = key


def tensors():
    return torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


# -- Lists ------------------------------------------------------------------------------------------------------------


@program(lambda: (torch.ones(3), [1, 2]), keeps=True)
def list_argument(x, found):
    found.append(x + 1)
    print(len(found))
    found.insert(0, x * 2)
    found[1] = 5
    print(len(found))
    found.extend([x, x])
    return found, found[-1] is found[-2]


@program()
def list_methods(x):
    found = [3, 1, 2]
    found.sort()
    print(found)
    found.reverse()
    popped = found.pop()
    print(popped)
    found += [x + 1]
    found *= 2
    del found[0]
    print(len(found), found.index(2), found.count(2))
    found.remove(2)
    copied = found.copy()
    print(len(copied))
    found.clear()
    return found, copied, popped


@program()
def list_aliases(x):
    a = [x]
    b = a
    c = [a, b, [a]]
    print("aliased")
    b.append(x + 1)
    print(len(a))
    c[2][0].append(x * 2)
    return a, b, c, c[0] is c[1]


@program()
def list_slices(x):
    a = [1, 2, 3, 4]
    a[1:3] = [x, x + 1, 9]
    print(len(a))
    a[::2] = ["p", "q", "r"]
    del a[1:2]
    print(len(a))
    return a, a[::-1]


@program()
def list_contains_itself(x):
    a = [x + 1]
    a.append(a)
    print(len(a))
    a.append(x * 2)
    return a


@program()
def list_grows_in_nested_calls(x):
    found = []

    def add(n):
        found.append(x + n)
        print(len(found))
        if n:
            add(n - 1)
        found.append(n)

    add(2)
    return found


# -- Dicts and sets ---------------------------------------------------------------------------------------------------


@program(lambda: (torch.ones(3), {"a": 1, "b": 2}), keeps=True)
def dict_argument(x, d):
    d["c"] = x + 1
    print(list(d))
    d["a"] = d["a"] + 1
    d.setdefault("d", []).append(x)
    print(list(d))
    del d["b"]
    d["b"] = x * 2
    d.update(e=5, f=x)
    return d, list(d)


@program()
def dict_methods(x):
    d = {"a": 1, "b": x, 3: [x]}
    print(d.get("z", 4), d.pop("a"))
    d |= {"c": x + 1}
    last = d.popitem()
    print(last[0])
    e = {**d, "b": 5}
    f = dict(d, g=1)
    print(len(e), len(f))
    keys, values, items = d.keys(), d.values(), d.items()
    d["new"] = x * 2
    return d, e, f, list(keys), list(values), list(items), d == e, "b" in d


@program()
def dict_kinds(x):
    default = collections.defaultdict(list)
    default["a"].append(x + 1)
    print(len(default))
    default["b"].append(1)
    ordered = collections.OrderedDict(a=1, b=x)
    ordered.move_to_end("a")
    print(list(ordered))
    ordered["c"] = x * 2
    counted = collections.Counter("abca")
    counted.update("aa")
    print(counted.most_common(1))
    return default, ordered, counted


@program(
    lambda: (
        torch.ones(3),
        collections.OrderedDict(a=1),
        collections.defaultdict(int),
        {1, 2},
        collections.deque([1], 3),
    ),
    keeps=True,
)
def other_container_arguments(x, ordered, default, numbers, queue):
    ordered["b"] = x + 1
    default["n"] += 2
    numbers.add(len(numbers) + 5)
    queue.append(x * 2)
    print(len(ordered), len(default), len(numbers), len(queue))
    ordered.move_to_end("a")
    default["m"] += 1
    numbers.discard(1)
    queue.appendleft(x)
    queue.append(3)
    return ordered, default, numbers, queue


@program()
def sets(x):
    s = {1, 2, 3}
    s.add(4)
    print(len(s))
    s -= {1}
    t = s | {10}
    print(sorted(t), s & t == s)
    s.update([7, 8])
    return s, t, frozenset(s), len(s ^ t) + x


@program()
def deques(x):
    q = collections.deque([1, 2, 3], maxlen=3)
    q.append(x + 1)
    print(len(q))
    q.rotate(1)
    q.appendleft(x)
    print(len(q))
    return q, q.popleft(), q.pop()


@program()
def dict_contains_itself(x):
    d = {"x": x + 1}
    d["self"] = d
    d["list"] = [d]
    print(len(d))
    d["y"] = x * 2
    return d


# -- Instances --------------------------------------------------------------------------------------------------------


@program()
def cycles(x):
    root = Node(x + 1)
    child = root.add(x * 2)
    print(len(root.children))
    grandchild = child.add(x)
    grandchild.next = root
    print("cycle")
    grandchild.value = grandchild.value + 1
    return root


@program(lambda: (torch.ones(3), Node(torch.zeros(3))), keeps=True)
def object_argument(x, node):
    node.value = node.value + x
    print(len(node.children))
    child = node.add(x * 2)
    node.extra = child
    print(node.extra is node.children[-1])
    child.value += 1
    del node.extra
    return node


@program()
def named_tuples(x):
    p = Pair(x + 1)
    print(p.b)
    q = p._replace(b=x * 2)
    a, b = q
    print(p == p, len(q))
    point = collections.namedtuple("point", "u v")(1, x)
    return p, q, a + b, point.v + point.u, p._asdict()


@program()
def data_classes(x):
    d = Data(x + 1)
    d.items.append(x)
    print(d.color)
    e = dataclasses.replace(d, color=Color.BLUE)
    f = Frozen(x * 2)
    print(e.items is d.items, f.n)
    d.x = d.x * 3
    try:
        f.n = 4
    except dataclasses.FrozenInstanceError as error:
        print(type(error).__name__)
    return d, e, f, Data(1) == Data(1)


@program(lambda: (torch.ones(3), Data(torch.ones(3)), Frozen(2), Pair(1)), keeps=True)
def data_arguments(x, data, frozen, pair):
    data.x = data.x + frozen.x + pair.b
    print(data.color.name)
    data.items.append(pair)
    data.color = Color.BLUE if data.color is Color.RED else Color.RED
    print(data.color.value)
    return data, frozen, pair, x + data.x


@program()
def slots(x):
    s = Slotted(x + 1)
    s.right = s
    print("slots")
    t = Slotted(s.left * 2, s)
    del s.right
    print(hasattr(s, "right"))
    return s, t


@program()
def enums(x):
    c = Color.RED
    print(c.name)
    d = Color(2)
    y = x + (1 if d is Color.BLUE else 100)
    print(Color["RED"] is c, [each.value for each in Color])
    return y, c, d, {c: y}


@program()
def subclasses_of_builtins(x):
    s = Stack([1])
    s.push(x + 1)
    print(len(s), s.pushed)
    s.push(x * 2)
    r = Registry(a=1)
    r["b"] = x
    print(r.last)
    r["c"] = s
    return s, r, s[1:] == s[1:2], isinstance(s, list)


@program(lambda: (torch.ones(3), Stack([1]), Registry(a=1)), keeps=True)
def subclass_arguments(x, stack, registry):
    stack.push(x + 1)
    print(stack.pushed)
    registry["k"] = stack
    registry["n"] = registry.get("n", 0) + 1
    print(registry.last)
    stack.push(x * 2)
    return stack, registry


# -- Tensors ----------------------------------------------------------------------------------------------------------


@program(tensors)
def tensors_mutated(x, y):
    x.add_(1)
    print("added")
    y[0] = x[1]
    y.mul_(2)
    print("multiplied")
    x[:, 1] = 0
    return x, y, x + y


@program(tensors)
def views(x, y):
    v = x[0]
    v.add_(1)
    print(v.shape)
    w = v[1:]
    w.mul_(3)
    print("views")
    t = x.t()
    t[0] = 9
    return v, w, t, x.view(-1)


@program(tensors)
def outputs_alias_inputs(x, y):
    z = x.reshape(6)
    print("alias")
    return x, z, y.detach(), y, [y], x.contiguous(), z.view(2, 3)


@program(tensors)
def tensor_attributes(x, y):
    x.note = "note"
    y.other = x + 1
    print(x.note)
    z = y.other * 2
    z.mark = [z.shape]
    x.note += "!"
    return z, x, y


@program(tensors)
def in_place_on_alive_views(x, y):
    rows = [x[i] for i in range(2)]
    for i, row in enumerate(rows):
        row += y[i]
        print(i)
    return rows, x


@program(lambda: (torch.ones(3), torch.ones(3)), keeps=True)
def augmented_argument(x, y):
    x += y
    print("one")
    y -= x
    z = x
    z *= 2
    return z is x, x, y


@program()
def gradients(x):
    w = torch.ones(3, requires_grad=True)
    y = (x * w).sum()
    print(y.requires_grad)
    y.backward()
    z = w.grad * 2
    print(z)
    w.grad.zero_()
    return w, z, (x * w)


@program()
def same_tensor_twice(x):
    def inner(a, b):
        a.add_(1)
        print("inner")
        return a + b, a is b

    first = inner(x, x)
    return first, inner(x, x.clone())


@program()
def set_data_and_requires_grad(x):
    y = x.clone().requires_grad_()
    print(y.requires_grad)
    z = (y * 2).detach()
    y.data = z
    return y, z


@program()
def containers_of_tensors(x):
    found = {"a": [x, (x + 1, {"b": x * 2})]}
    print("nested")
    found["a"][1][1]["c"] = found["a"][0]
    found["a"].append(found)
    return found


@program()
def conversions(x):
    y = torch.tensor([1, 2, 3])
    print(y.tolist())
    z = torch.stack([x[0], y.float()])
    n = z.numpy()
    print(type(n).__name__)
    return z, torch.from_numpy(n) + 1, torch.tensor(x.sum().item())


@program()
def dtypes_and_devices(x):
    dtype, device = x.dtype, x.device
    print(dtype, device)
    y = torch.zeros(2, dtype=dtype, device=device)
    return y.to(torch.float64) + 1, y.int(), dtype, device, x.shape, x.size(0), torch.Size([1, 2])


@program(lambda: (torch.ones(3), [torch.zeros(3), [torch.ones(3)]]), keeps=True)
def nested_argument(x, nested):
    nested[0] = nested[0] + x
    print("one")
    nested[1].append(nested[0])
    nested[1][0].mul_(2)
    print("two")
    nested.append(nested[1])
    return nested[1], x


@program(lambda: (lambda shared: (shared, shared, {"k": shared}))([1]))
def aliased_arguments(a, b, c):
    a.append(torch.ones(2))
    print(len(b))
    b.append(a[-1] + 1)
    c["k"].append(len(a))
    return a is b, c["k"] is a, a[-2] * 2


@program(lambda: (lambda t: (t, t, t.view(-1)))(torch.ones(2, 2)))
def aliased_tensors(a, b, c):
    a.add_(1)
    print("one")
    b.mul_(2)
    return a is b, c + 1, a, c
