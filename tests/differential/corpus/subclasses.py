"""Subclasses of torch.Tensor, and objects that pose as tensors."""

import torch
import torch.nn.functional as F
from differential import program
from torch import nn


def pair(cls):
    return lambda: (torch.ones(2, 3).as_subclass(cls), torch.ones(2, 3))


class Kind(nn.Parameter):
    """A Parameter with attributes and methods of its own: operators mean what they mean to any."""

    @property
    def rank(self):
        return self.dim() + 10

    def doubled(self):
        return self * 2

    def __mul__(self, other):
        return super().__mul__(other) + self.shift


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Kind(torch.linspace(-1, 1, 9).reshape(3, 3))
        self.weight.shift = 3
        self.bias = Kind(torch.ones(3), requires_grad=False)

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias) * self.weight.rank
        kinds = type(self.weight).__name__, isinstance(self.weight, Kind), type(self.weight + 1) is torch.Tensor
        return y + self.weight.doubled().sum(), self.weight.shift, kinds


@program(lambda: (Net(), torch.ones(2, 3)), whole=True, backward=True)
def kinds_of_parameters(net, x):
    return net(x)


class Inert(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    def more(self):
        return self + 5


@program(pair(Inert), whole=True)
def without_torch_function(p, x):
    y = p * 2 + x
    p.add_(1)
    return y, type(y) is torch.Tensor, p.more(), type(p).__name__, p


class Plain(torch.Tensor):
    pass


@program(pair(Plain))
def without_methods(p, x):
    y = p * 2 + x
    return y, type(y), p.as_subclass(torch.Tensor) + 1, (x + 1) * 3


class Tagged(torch.Tensor):
    """What comes of it is tagged one higher."""

    @staticmethod
    def __new__(cls, data, tag):
        made = torch.Tensor._make_subclass(cls, data)
        made.tag = tag
        return made

    def __init__(self, data, tag):
        self.tag = tag

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        tags = [each.tag for each in args if isinstance(each, Tagged)]
        if isinstance(result, torch.Tensor) and not isinstance(result, Tagged) and tags:
            result = (result * 1.0).as_subclass(Tagged)
            result.tag = tags[0] + 1
        return result

    def twice(self):
        return self * 2


@program(lambda: (Tagged(torch.ones(2, 3), 4), torch.ones(2, 3)))
def with_torch_function(p, x):
    a = x * 2 + 1
    z = (p + a).twice()
    return z.as_subclass(torch.Tensor), z.tag, p.tag, a * 2


class Measured:
    """No tensor: it poses as one."""

    def __init__(self, value, unit):
        self.value, self.unit = value, unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        units = {each.unit for each in args if isinstance(each, Measured)}
        values = [each.value if isinstance(each, Measured) else each for each in args]
        return Measured(func(*values, **(kwargs or {})), min(units))


@program()
def posing(x):
    y = torch.sin(torch.add(Measured(x * 2, 5), x))
    return y.value + 1, y.unit


class Two(torch.Tensor):
    """A wrapper of two tensors."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        parts = [[each.parts()[i] if isinstance(each, Two) else each for each in args] for i in (0, 1)]
        return Two(*(func(*each, **(kwargs or {})) for each in parts))

    def parts(self):
        return self.a, self.b


@program()
def wrapping(x):
    y = torch.sin(Two(x * 2, x * 3) + 1)
    return y.a + 1, y.b, type(y).__name__


@program()
def quantized(x):
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    return q.dequantize() + 1, q.q_scale(), q.int_repr() + 1, q.dtype, x * 2


@program()
def nested(x):
    n = torch.nested.nested_tensor([x[0], x[1, :2]])
    return [each + 1 for each in (n * 2).unbind()], torch.nested.to_padded_tensor(n, 0.0)


@program()
def outputs_are_given(x):
    values, places = torch.empty(3), torch.empty(0, dtype=torch.long)
    torch.max(x, 0, out=(values, places))
    wide = torch.zeros(4, 4)
    torch.add(x[:, :2], 1, out=wide[::2, ::2])
    return values, places, wide
