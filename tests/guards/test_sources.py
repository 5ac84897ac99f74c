from __future__ import annotations

import copy
import math
import re
from collections import OrderedDict
from types import CellType

import msgspec
import pytest
import torch

from aotdyn.guards import constants, naming
from aotdyn.guards import sources as S
from aotdyn.runtime.variant import SourceData

CONSTANTS = [
    None,
    True,
    1,
    2**70,
    -(2**80),
    1.5,
    float("nan"),
    -0.0,
    float("inf"),
    1 + 2j,
    "a",
    "\ud800",
    b"x",
    ...,
    NotImplemented,
    (1, (2,)),
    frozenset([1, "a"]),
    slice(1, None),
    range(3),
    torch.float32,
    torch.device("cpu"),
    torch.device("cuda", 1),
    torch.strided,
    torch.channels_last,
    torch.Size([1, 2]),
    dict,
    math.sqrt,
    torch.relu,
    torch.nn.Linear,
]


def short(value):
    """A name for a test case that is the same in every process."""
    if isinstance(value, frozenset):
        return f"frozenset of {sorted(map(str, value))}"
    return re.sub(r" (at 0x\w+|from '[^']*')", "", str(value))


@pytest.mark.parametrize("value", CONSTANTS, ids=short)
def test_constants_come_back(value):
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(constants.encode(value)))
    assert constants.same(value, constants.decode(data))


def test_constants_differ_by_type_and_value():
    values = [
        1,
        True,
        1.0,
        -0.0,
        0.0,
        0,
        False,
        float("nan"),
        (1,),
        (True,),
        torch.Size([1]),
        range(0),
        range(1, 0),
        None,
    ]
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert constants.same(a, b) == (i == j), (a, b)
    assert not constants.is_constant([1])
    assert not constants.is_constant((1, object()))


@pytest.mark.parametrize(
    "obj",
    [
        torch.add,
        torch._C._nn.gelu,
        torch.nn.functional.scaled_dot_product_attention,
        torch.Tensor.add,
        torch.Tensor.shape,
        torch.ops.aten.add.Tensor,
        torch.ops.aten.add,
        torch.linalg.norm,
        torch.FloatTensor,
        dict.__getitem__,
        dict.fromkeys,
        len,
        torch,
        torch.nn.Module.__call__,
    ],
    ids=short,
)
def test_names_find_the_object(obj):
    path = naming.path_of(obj)
    assert path is not None
    assert naming.find(*path) == obj


def test_what_has_no_name():
    def local():
        pass

    assert naming.path_of(local) is None
    assert naming.path_of([].append) is None
    with pytest.raises(LookupError):
        naming.find("torch", "nowhere.at.all")
    with pytest.raises(LookupError):
        naming.find("no_such_module", "f")


def test_sources_are_one_object():
    x = S.Arg(0, "x")
    assert S.Arg(0, "x") is x
    assert S.Item(x, 1) is not S.Item(x, True)
    assert S.Item(x, 0.0) is not S.Item(x, -0.0)
    assert copy.deepcopy(S.Item(x, (1, "a"))) is S.Item(x, (1, "a"))
    with pytest.raises(AttributeError):
        x.key = 1


def test_text():
    x = S.Arg(0, "self")
    layers = S.RawItem(S.Item(S.Attr(x, "__dict__"), "_modules"), "layers")
    weight = S.Item(S.Attr(S.RawItem(S.Attr(layers, "_modules"), "0"), "_parameters"), "weight")
    assert str(weight) == "self.layers[0].weight"
    assert str(S.Item(S.Item(S.Globals("app"), "CONFIG"), "n")) == "app.CONFIG['n']"
    assert str(S.Item(S.Globals(""), "N")) == "N"
    assert str(S.Pure("len", x)) == "len(self)"
    assert str(S.ClassAttr(S.TypeOf(x), "forward")) == "type(self).forward"


class Box:
    attribute = property(lambda self: 1)


class Odd(OrderedDict):
    def __getitem__(self, key):
        raise AssertionError("runs Python")


def test_reads():
    box = Box()
    box.items = Odd(a=[10, 20])
    env = S.Env((box, CellType(5)), {"N": 3}, ["local"])
    x = S.Arg(0, "x")
    items = S.Item(S.Attr(x, "__dict__"), "items")
    assert env.read(S.Item(S.RawItem(items, "a"), 1)) == 20
    assert env.read(S.Key(items, 0)) == "a"
    assert env.read(S.Cell(S.Arg(1, "c"))) == 5
    assert env.read(S.Item(S.Globals(""), "N")) == 3
    assert env.read(S.ClassAttr(S.TypeOf(x), "attribute")) is Box.__dict__["attribute"]
    assert env.read(S.Local(0)) == "local"
    assert S.Module("math").read(env) is math
    assert S.Item(S.Globals("math"), "pi").read(env) is math.pi
    with pytest.raises(LookupError):
        S.Pure("os.system", x)


def test_tables():
    x, y = S.Arg(0, "x"), S.Arg(1, "y")
    wanted = [S.Item(S.Attr(x, "a"), (1, None)), S.Pure("torch.Tensor.data_ptr_equal", x, y), S.Local(0, "note")]
    rows = S.encode_sources(wanted)
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(rows), type=list[SourceData])
    decoded = S.decode_sources(data)
    assert all(source in decoded for source in wanted)
    assert all(row.base < i for i, row in enumerate(data))
