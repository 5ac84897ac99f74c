"""The short walk: once armed, it sees every change that the full walk sees."""

from __future__ import annotations

import gc
import itertools
import types
import weakref

import pytest
import torch
from torch import nn

import aotdyn
from aotdyn.guards import versions

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Scale(nn.Module):
    gain = 2.0

    def __init__(self):
        super().__init__()
        self.by = 1.5
        self.steps = [1.0, 2.0]
        self.options = {"shift": 0.5, "sizes": (1, 2)}

    def forward(self, x):
        for step in self.steps:
            x = x * step
        return x * self.by * self.gain + self.options["shift"] + self.options["sizes"][1]


class Halve(Scale):
    def forward(self, x):
        return x / 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Dropout(0.5)])
        self.scale = Scale()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.scale(x)


def states():
    return [each for each in list(versions._all) if each.states]


def armed():
    """A net, and its compiled form whose short walk has served."""
    gc.collect()
    torch.manual_seed(0)
    net = Net().eval()
    compiled = aotdyn.compile(net, backend="eager")
    for _ in range(4):
        assert torch.equal(compiled(X), net(X))
    assert states()
    return net, compiled


def hook(module, args, output):
    return output + 1


def replace_dict(net):
    net.scale.__dict__ = {**net.scale.__dict__, "by": 4.0}


def replace_parameter(net):
    net.layers[0].weight = nn.Parameter(torch.ones(4, 4))


CHANGES = {
    "forward hook": lambda net: net.layers[1][0].register_forward_hook(hook),
    "forward pre-hook": lambda net: net.scale.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "hook on the root": lambda net: net.register_forward_hook(hook),
    "attribute": lambda net: setattr(net.scale, "by", 3.0),
    "attribute of another type": lambda net: setattr(net.scale, "by", 3),
    "attribute by __dict__": lambda net: net.scale.__dict__.update(by=3.0),
    "attribute that hides the class's": lambda net: setattr(net.scale, "gain", 3.0),
    "method on the instance": lambda net: setattr(net.scale, "forward", lambda x: x - 1),
    "class of a submodule": lambda net: setattr(net.scale, "__class__", Halve),
    "dict of a submodule": replace_dict,
    "list": lambda net: net.scale.steps.append(5.0),
    "item of a dict": lambda net: net.scale.options.update(shift=7.0),
    "item of a tuple": lambda net: net.scale.options.update(sizes=(1, 5)),
    "submodule": lambda net: setattr(net, "scale", Halve()),
    "submodule by _modules": lambda net: net._modules.update(scale=Halve()),
    "order of submodules": lambda net: net.layers._modules.update({"0": net.layers._modules.pop("1"), "1": nn.ReLU()}),
    "another layer": lambda net: net.layers.append(nn.ReLU()),
    "parameter": replace_parameter,
    "data of a parameter": lambda net: net.layers[0].weight.data.zero_(),
    "no bias": lambda net: setattr(net.layers[0], "bias", None),
    "training": lambda net: net.layers[2].train(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_sees(change):
    net, compiled = armed()
    CHANGES[change](net)
    for _ in range(4):
        torch.manual_seed(1)
        expected = net(X)
        torch.manual_seed(1)
        assert torch.equal(compiled(X), expected)


class Louder(nn.Module):
    def __call__(self, *args):
        return self.forward(*args) + 1


CLASS_CHANGES = {
    "attribute of a class": (Scale, "gain", 5.0),
    "method of a class": (Scale, "forward", lambda self, x: x + 9),
    "method of a library's class": (nn.Linear, "forward", lambda self, x: x + 2),
    "call of all modules": (nn.Module, "__call__", lambda self, *args: self.forward(*args) + 1),
    "code of a function": (Scale.forward, "__code__", (lambda self, x: x + 3).__code__),
    "bases of a class": (Scale, "__bases__", (Louder,)),
    "function of a library": (nn.functional, "linear", lambda x, weight, bias=None: x - 1),
}


@pytest.mark.parametrize("change", CLASS_CHANGES)
def test_sees_classes(change, monkeypatch):
    net, compiled = armed()
    owner, name, value = CLASS_CHANGES[change]
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        for _ in range(3):
            assert torch.equal(compiled(X), net(X))
    finally:
        setattr(owner, name, before)
    assert torch.equal(compiled(X), net(X))


def test_sees_global_hooks():
    net, compiled = armed()
    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        assert torch.equal(compiled(X), net(X))
    finally:
        handle.remove()
    assert torch.equal(compiled(X), net(X))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.net = Net()

    def forward(self, x):
        self.count += 1
        return self.net(x) + self.count


def test_a_module_that_writes_its_own_attributes():
    torch.manual_seed(0)
    plain = Counter().eval()
    net = Counter().eval()
    net.load_state_dict(plain.state_dict())
    compiled = aotdyn.compile(net, backend="eager")
    for _ in range(6):
        assert torch.equal(compiled(X), plain(X))
    assert net.count == 6


def apply(net, x):
    return net(x) * 2


def test_instances_have_states_of_their_own():
    gc.collect()
    torch.manual_seed(0)
    nets = [Net().eval() for _ in range(3)]
    compiled = aotdyn.compile(apply, backend="eager")
    for _ in range(4):
        for net in nets:
            assert torch.equal(compiled(net, X), apply(net, X))
    assert max(len(each.states) for each in states()) == 3
    nets[1].scale.by = 8.0
    for net in nets:
        assert torch.equal(compiled(net, X), apply(net, X))


def test_keeps_no_module_alive():
    compiled = aotdyn.compile(apply, backend="eager")
    net = Net().eval()
    for _ in range(4):
        compiled(net, X)
    assert states()
    seen = [weakref.ref(each) for each in (net, net.layers[0], net.layers[0].weight, net.scale)]
    del net
    assert [ref() for ref in seen] == [None] * 4


def test_a_full_collection_lets_go():
    armed()
    gc.collect()
    assert not states()


def test_another_class_of_the_name_of_a_builtin_never_arms():
    found = versions.Versions([1], itertools.count(), usable=False)
    found.arm(({}, {}), (), (), ())
    found.arm(({}, {}), (), (), ())
    assert not found.states
    assert versions.is_static(dict)
    assert not versions.is_static(type("dict", (dict,), {"__module__": "builtins"}))
    assert not versions.is_static(types.ModuleType)
