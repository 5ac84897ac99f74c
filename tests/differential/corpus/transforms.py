"""Transforms of functions, control flow in graphs, operators of libraries, trees, subclasses of Tensor."""

import torch
import torch.utils._pytree as pytree
from differential import program
from operators import add_to, twice
from torch import func
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def two():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3), torch.linspace(0.5, 1.0, 3))


def leaf():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_(),)


def loss(w, b):
    return (torch.tanh(w * b) ** 2).sum()


# -- torch.func --------------------------------------------------------------------------------------------------------


@program(two, whole=True)
def gradient(w, b):
    return func.grad(loss)(w, b)


@program(two, whole=True)
def gradient_of_the_second(w, b):
    return func.grad(loss, argnums=1)(w, b), func.grad(loss, argnums=(0, 1))(w, b)


@program(two, whole=True)
def gradient_and_value(w, b):
    def with_more(w, b):
        y = loss(w, b)
        return y, {"more": w + 1}

    return func.grad_and_value(with_more, has_aux=True)(w, b), func.grad(with_more, has_aux=True)(w, b)


@program(two, whole=True)
def gradient_of_gradient(w, b):
    return func.grad(lambda b: func.grad(lambda c: (c**3).sum())(b).sum())(b)


@program(two, whole=True)
def gradients_per_sample(w, b):
    return func.vmap(func.grad(loss), in_dims=(0, None))(w, b)


@program(two, whole=True)
def forward_mode(w, b):
    return func.jvp(lambda x: x.sin() * b, (w,), (torch.ones_like(w),))


@program(two, whole=True)
def reverse_mode(w, b):
    out, pull = func.vjp(lambda x, y: (x * y).cos(), w, b)
    return out, pull(torch.ones_like(out))


@program(two, whole=True)
def jacobians(w, b):
    def f(x):
        return x.sin() * w.sum(0)

    return func.jacrev(f)(b), func.jacfwd(f)(b), func.hessian(lambda x: f(x).sum())(b)


@program(two, graphs=False)
def linearized(w, b):
    out, push = func.linearize(lambda x: x.sin() * b, w)
    return out, push(torch.ones_like(w))


@program(leaf, whole=True, backward=True)
def gradient_through_gradient(w):
    return func.grad(lambda x: (x**3).sum())(w) * 2


def modules():
    made = torch.nn.Linear(3, 2)
    with torch.no_grad():
        made.weight.copy_(torch.linspace(-1, 1, 6).reshape(2, 3))
        made.bias.copy_(torch.tensor([0.5, -0.5]))
    return made, torch.linspace(-1.0, 2.0, 6).reshape(2, 3)


@program(modules, whole=True, backward=True)
def functional(made, x):
    parameters = {name: each * 2 for name, each in made.named_parameters()}
    return func.functional_call(made, parameters, (x,))


@program(modules, whole=True)
def functional_gradient(made, x):
    parameters = dict(made.named_parameters())

    def of(parameters):
        return (func.functional_call(made, parameters, (x,)) ** 2).sum()

    return func.grad(of)({name: each.detach() for name, each in parameters.items()})


@program(two, whole=True)
def changes_in_place_inside(w, b):
    def f(x):
        y = torch.zeros_like(x)
        z = y.add_(x)
        y[0] = 7
        return y * 2, z is y

    def g(x):
        return f(x)[0].sum() * x.sum()

    return func.vmap(lambda x: f(x)[0])(w), func.grad(g)(b)


@program(two)
def changes_from_outside_in_place(w, b):
    return func.vmap(lambda x: x.mul_(2))(w) + 1, w


def tied():
    made = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    made[1].weight = made[0].weight
    with torch.no_grad():
        for each in made.parameters():
            each.copy_(torch.linspace(-1, 1, each.numel()).reshape(each.shape))
    return made, torch.linspace(-1.0, 2.0, 6).reshape(2, 3)


@program(tied, whole=True)
def functional_with_tied_weights(made, x):
    given = {"0.weight": torch.ones(3, 3), "1.bias": torch.zeros(3)}
    return func.functional_call(made, given, x), made(x)


@program(leaf, whole=True, backward=True)
def vjp_with_outer_grad(w):
    out, pull = func.vjp(lambda x: x.sin() * 2, w)
    return pull(torch.ones_like(out))[0] * w


@program(two, whole=True)
def vmap_in_place_gives_the_tensor(w, b):
    x, z = w.detach().clone(), b.detach().clone()
    y = func.vmap(torch.Tensor.acos_)(x)
    v = func.vmap(torch.sin)(z)
    moved = func.vmap(torch.Tensor.neg_, out_dims=1)(x)
    return y is x, v is z, moved is x, y, v, moved


@program(two, whole=True)
def vmap_with_chunks(w, b):
    return func.vmap(lambda row: row * b, chunk_size=1)(w)


@program(two, whole=True)
def vmap_with_random(w, b):
    return func.vmap(lambda row: row + torch.rand(3), randomness="different")(w)


# -- Control flow ------------------------------------------------------------------------------------------------------


def then(x):
    return x.sin() + 1


def otherwise(x):
    return x.cos() - 1


@program(two, whole=True)
def conditional(w, b):
    return torch.cond(w.sum() > 0, then, otherwise, (w,)), torch.cond(w.sum() > 99, then, otherwise, (w,))


@program(two, whole=True)
def conditional_on_closures(w, b):
    def yes(x):
        return x * b, x.sum()

    def no(x):
        return x - b, x.mean()

    return torch.cond(b.sum() > 0, yes, no, (w,))


@program(leaf, whole=True, backward=True)
def conditional_with_grad(w):
    return torch.cond(w.sum() > 0, then, otherwise, (w,))


@program(two, whole=True)
def conditional_on_python(w, b):
    return torch.cond(w.shape[0] == 2, then, otherwise, (w,))


@program(two, whole=True)
def loops_while(w, b):
    from torch._higher_order_ops.while_loop import while_loop

    n, x = while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), w))
    return n, x


@program(two, whole=True)
def scans(w, b):
    from torch._higher_order_ops.scan import scan

    return scan(lambda carry, x: (carry + x, carry * 2), b, w)


@program(two, whole=True)
def scans_by_association(w, b):
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda x, y: x + y, w, 0, combine_mode="generic")


@program(two, whole=True)
def maps(w, b):
    from torch._higher_order_ops.map import map as mapped

    return mapped(lambda row, c: row * c, w, b) + 0


def attended():
    return (torch.linspace(-1, 1, 48).reshape(1, 2, 4, 6),)


@program(attended, whole=True)
def flexible_attention(q):
    def causal(score, b, h, q, kv):
        return torch.where(q >= kv, score, -float("inf"))

    return flex_attention(q, q, q, score_mod=causal)


@program(attended, whole=True)
def flexible_attention_with_bias(q):
    bias = torch.linspace(0, 1, 4)

    def biased(score, b, h, q, kv):
        return score + bias[kv]

    return flex_attention(q, q, q, score_mod=biased, scale=0.5)


def masked():
    return (*attended(), create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4, device="cpu"))


@program(masked, whole=True)
def flexible_attention_with_mask(q, mask):
    return flex_attention(q, q, q, block_mask=mask)


# -- Operators of libraries --------------------------------------------------------------------------------------------


@program(leaf, whole=True, backward=True)
def own_operator(w):
    return twice(w) + twice(w, 3.0)


@program(two, whole=True)
def own_operator_by_name(w, b):
    return torch.ops.aotdyn_corpus.twice(w, 4.0), torch.ops.aotdyn_corpus.twice.default(w)


@program(two, whole=True)
def own_operator_that_writes(w, b):
    add_to(w, 3)
    return w + 1


# -- Trees -------------------------------------------------------------------------------------------------------------


@program(two, whole=True)
def trees(w, b):
    tree = {"a": w, "b": [b, (w, 3)], "c": None}
    doubled = pytree.tree_map(lambda x: x * 2 if isinstance(x, torch.Tensor) else x, tree)
    leaves, spec = pytree.tree_flatten(tree)
    back = pytree.tree_unflatten(list(leaves), spec)
    only = pytree.tree_map_only(torch.Tensor, lambda x: x + 1, tree)
    return doubled, len(leaves), back, only, pytree.tree_leaves(tree)[0] is w


# -- Subclasses --------------------------------------------------------------------------------------------------------


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, cls):
            result.tag = getattr(args[0], "tag", 0) + 1 if args and isinstance(args[0], cls) else 1
        return result


def tagged():
    made = torch.linspace(-1.0, 2.0, 6).reshape(2, 3).as_subclass(Tagged)
    made.tag = 5
    return (made,)


@program(tagged, graphs=False)
def tagged_tensors(x):
    y = x * 2 + 1
    return y.tag, type(y).__name__, y.as_subclass(torch.Tensor) + 1


class Plain(torch.Tensor):
    pass


def plain():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).as_subclass(Plain),)


@program(plain, graphs=False)
def plain_subclass(x):
    y = x * 2 + 1
    return type(y).__name__, y


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=False)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrap = lambda x: x.inner if isinstance(x, cls) else x  # noqa: E731
        result = func(*pytree.tree_map(unwrap, args), **pytree.tree_map(unwrap, kwargs or {}))
        return cls(result + 1) if isinstance(result, torch.Tensor) else result


@program(two, graphs=False)
def wrapped_tensors(w, b):
    x = Wrapped(w)
    y = x * 2
    return type(y).__name__, y.inner + 1
