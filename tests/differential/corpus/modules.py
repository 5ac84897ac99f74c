"""Modules that change between calls: what a guard has to see, each in its own program."""

import torch
import torch.nn.functional as F
from differential import program
from torch import nn
from torch.nn.utils import parametrize

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def linear():
    made = nn.Linear(3, 3)
    with torch.no_grad():
        for number, each in enumerate(made.parameters()):
            each.copy_(torch.linspace(-1, 1, each.numel()).reshape(each.shape) + number)
    return made


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = linear(), linear()
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.drop(self.last(F.relu(self.first(x)))))


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 5


def changed(*changes):
    """Declare a program of a module that is called, and called again after each change."""

    def args(state={}):  # noqa: B006
        turn = state["turn"] = (state.get("turn", -1) + 1) % (len(changes) + 1)
        if turn:
            changes[turn - 1](state["net"])
        else:
            state["net"] = Net()
        return state["net"], X.clone()

    return program(args, calls=len(changes) + 1, backward=True)


def put(path, value):
    """What sets an attribute of a module's part to what `value` makes."""

    def change(net):
        *parts, name = path.split(".")
        for part in parts:
            net = getattr(net, part)
        setattr(net, name, value())

    return change


@changed(nn.Module.eval, nn.Module.train, lambda net: net.drop.eval(), put("drop.p", lambda: 0.1))
def modes(net, x):
    return net(x)


@changed(
    lambda net: net.first.weight.requires_grad_(False),
    lambda net: net.requires_grad_(False),
    lambda net: net.norm.requires_grad_(),
)
def what_learns(net, x):
    return net(x)


@changed(
    lambda net: put("first.weight.data", lambda: net.first.weight.data * 2)(net),
    lambda net: net.first._parameters.update(weight=nn.Parameter(torch.ones(3, 3))),
    put("first.bias", lambda: None),
    lambda net: setattr(net.last, "weight", net.first.weight),
    lambda net: net.double().float(),
    lambda net: net.load_state_dict({name: each * 0 + 1 for name, each in net.state_dict().items()}),
    lambda net: net.zero_grad(),
)
def parameters(net, x):
    return net(x)


@changed(
    put("norm.momentum", lambda: 0.5),
    put("norm.running_mean", lambda: torch.ones(3)),
    put("norm.track_running_stats", lambda: False),
    lambda net: net.register_buffer("more", torch.ones(3)),
)
def buffers(net, x):
    return net(x)


@changed(
    put("first", nn.Identity),
    lambda net: net._modules.update(last=nn.Sequential(linear(), nn.Tanh())),
    put("drop", nn.Sequential),
    lambda net: net.last.append(nn.ReLU()),
)
def parts(net, x):
    return net(x)


@changed(put("first.forward", lambda: torch.tanh), put("last.__class__", lambda: Scaled))
def forwards(net, x):
    return net(x)


@changed(
    lambda net: parametrize.register_parametrization(net.first, "weight", Symmetric()),
    lambda net: parametrize.remove_parametrizations(net.first, "weight"),
)
def parametrizations(net, x):
    return net(x)


class Hooked(Net):
    """Its hooks are kept under names: handles have numbers that are counted up."""

    def forward(self, x):
        before, after = (len(each) for each in (self.first._forward_pre_hooks, self.first._forward_hooks))
        return super().forward(x), before, after


def hooked():
    net = Hooked()
    handles = [
        net.first.register_forward_hook(lambda module, args, result: result * 2),
        net.first.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
        net.last.register_full_backward_hook(lambda module, given, grads: (given[0] * 2,)),
        nn.modules.module.register_module_forward_hook(
            lambda module, args, result: result + 1 if isinstance(module, nn.Linear) else None
        ),
    ]
    return net, handles, X.clone()


@program(hooked, backward=True, durable=False)
def hooks_are_taken_away(net, handles, x):
    results = [net(x)]
    while handles:
        handles.pop().remove()
        results.append(net(x))
    return results


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(torch.ones(3))])
        self.dict = nn.ParameterDict({"a": nn.Parameter(torch.ones(3))})
        self.layers = nn.ModuleList([linear()])
        self.named = nn.ModuleDict({"a": linear()})

    def forward(self, x):
        for each in self.list:
            x = x * each
        for each in self.dict.values():
            x = x + each
        for each in (*self.layers, *self.named.values()):
            x = each(x)
        return x


GROWTH = (
    lambda net: net.list.append(nn.Parameter(torch.full((3,), 2.0))),
    lambda net: net.dict.update({"b": nn.Parameter(torch.ones(3))}),
    lambda net: net.layers.append(nn.ReLU()),
    lambda net: net.named.update({"z": nn.Tanh()}),
    lambda net: net.named.pop("a"),
)


def growing(state={}):  # noqa: B006
    turn = state["turn"] = (state.get("turn", -1) + 1) % (len(GROWTH) + 1)
    if turn:
        GROWTH[turn - 1](state["net"])
    else:
        state["net"] = Growing()
    return state["net"], X.clone()


@program(growing, calls=len(GROWTH) + 1, backward=True)
def grown(net, x):
    return net(x)


class Replacing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = linear(), 0

    def forward(self, x):
        y = self.layer(x)
        self.layer = nn.Identity()
        self.calls += 1
        if not hasattr(self, "seen"):
            self.register_buffer("seen", torch.zeros(()))
        self.seen += 1
        return self.layer(y) + self.calls + self.seen


@program(lambda: (Replacing(), X.clone()), keeps=True, calls=3)
def replaces_its_parts(net, x):
    return net(x)


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = linear()

    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.ones(3))
        return self.layer(x) * self.scale


@program(lambda: (Late(), X.clone()), keeps=True, calls=3, backward=True)
def makes_a_parameter(net, x):
    return net(x)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


torch.manual_seed(0)
TRACED = torch.fx.symbolic_trace(Small())


@program(whole=True)
def call_of_a_graph_module(x):
    return TRACED(x) * 2, TRACED.linear(x)


@program()
def error_in_a_graph_module(x):
    y = x * 2
    try:
        return TRACED(x[:, :2])
    except RuntimeError as error:
        return y, type(error).__name__
