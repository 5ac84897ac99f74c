"""`torch.autograd.Function`: backward passes that the program brings along."""

import torch
from differential import loud as print
from differential import program
from torch.autograd import forward_ad


def leaf():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_(),)


def leaves():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_(), torch.linspace(0.5, 1.0, 3).requires_grad_())


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * 10


@program(leaf, whole=True, backward=True)
def own_function(w):
    return Square.apply(w * 2) + 1


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, factor, name="n"):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        ctx.name = name
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        gx = g * y * ctx.factor + h if ctx.needs_input_grad[0] else None
        gy = (g * x * ctx.factor + h).sum(0) if ctx.needs_input_grad[1] else None
        return gx, gy, None, None


@program(leaves, whole=True, backward=True)
def own_function_of_several(w, b):
    x, y = Scaled.apply(w, b, 3.0)
    z, _ = Scaled.apply(w, b.detach(), 2, "m")
    return x + z, y


class NotAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.sort()
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return values, places

    @staticmethod
    def backward(ctx, g, _):
        (places,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(-1, places, g * 7)


@program(leaf, whole=True, backward=True)
def non_differentiable_outputs(w):
    values, places = NotAll.apply(w)
    return values * 2, places, places.requires_grad


class Split(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, y, output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g):
        x, y, out = ctx.saved_tensors
        return g * y + out * 0, (g * x).sum(0)


@program(leaves, whole=True, backward=True)
def own_function_with_setup(w, b):
    return Split.apply(w, b)


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@program(leaf, backward=True)
def own_function_in_place(w):
    y = w * 1
    z = InPlace.apply(y)
    return z, z is y


@program(leaf, whole=True)
def own_function_without_grad(w):
    with torch.no_grad():
        return Square.apply(w), Square.apply(w).requires_grad


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        return torch.nn.functional.hardtanh(g)


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return Straight.apply(x * self.scale) * self.scale


def gated():
    return Gate(), torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_()


@program(gated, whole=True, backward=True)
def own_function_in_a_module(gate, w):
    return gate(w)


class Printing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        print("backward")
        return g * ctx.saved_tensors[0]


@program(leaf, graphs=False, backward=True)
def own_backward_prints(w):
    return Printing.apply(w)


class Context(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        ctx.shape = x.shape
        ctx.kept = result.sum()
        return result.reshape(-1), 5, None

    @staticmethod
    def backward(ctx, g, *others):
        (result,) = ctx.saved_tensors
        return g.reshape(ctx.shape) * result * ctx.kept


@program(leaf, whole=True, backward=True)
def own_function_with_other_results(w):
    a, five, none = Context.apply(w)
    return a * five, none


@program(leaf, whole=True, backward=True)
def own_function_differentiated_twice(w):
    y = Square.apply(w)
    (g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    return g


class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, x * y, x

    @staticmethod
    def backward(ctx, a, b, c):
        return a + 2 * b + 3 * c, b


@program(leaf, whole=True, backward=True)
def own_function_with_an_argument_twice(w):
    a, b, c = Through.apply(w * 1, w * 2)
    d, e, f = Through.apply(w, w)
    return a, b * c, d is w, d * e + f


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Square.apply(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * Square.apply(x)


@program(leaf, backward=True)
def own_function_in_a_backward(w):
    y = Outer.apply(w + 1)
    (g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    return y, g


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0]


@program(leaf, backward=True)
def own_function_differentiable_once(w):
    y = Once.apply(w * 2)
    (g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    try:
        torch.autograd.grad(g.sum(), w)
    except RuntimeError as error:
        return y, str(error)[:40]


class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch._assert(x.dim() == 2, "two")
        raise ValueError("no")

    @staticmethod
    def backward(ctx, g):
        return g


@program(lambda: (leaf()[0].detach(), leaf()[0]))
def own_function_that_raises(x, w):
    try:
        Raising.apply(x)
    except ValueError as error:
        return str(error), torch.is_grad_enabled(), w * 2
    return None


class Counting(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counting.calls += 1
        ctx.n = Counting.calls
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.n


@program(leaf, backward=True, durable=False)
def own_function_that_counts(w):
    return Counting.apply(w), Counting.apply(w * 3), Counting.calls


@program(leaf, graphs=False)
def forward_mode_around_a_break(w):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(w.detach(), torch.ones_like(w))
        y = x.sin()
        print("inside")
        z = forward_ad.unpack_dual(y * 2)
    return z.primal, z.tangent


@program(leaf, whole=True)
def forward_mode(w):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(w.detach(), torch.ones_like(w))
        return forward_ad.unpack_dual(x.sin() * 2).tangent
