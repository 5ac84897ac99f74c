"""Autograd: what records, what doesn't, functions with a backward of their own, and backward passes inside."""

import contextlib

import torch
from differential import loud as print
from differential import program
from torch.utils import checkpoint as checkpoints


def leaf():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_(),)


def leaves():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_(), torch.linspace(0.5, 1.0, 3).requires_grad_())


# -- Training through what was captured --------------------------------------------------------------------------------


@program(leaves, whole=True, backward=True)
def trains(w, b):
    return torch.tanh(w * b + b).sum(), (w * w).mean()


@program(leaves, whole=True, backward=True, keeps=True)
def accumulates(w, b):
    return (w * b).exp().sum()


@program(leaf, whole=True, backward=True)
def detached_parts(w):
    return w * w.detach() + (w * 2).detach() * w, w.detach().requires_grad, w.data * w


@program(leaf, whole=True, backward=True)
def without_and_with_grad(w):
    with torch.no_grad():
        a = w * 2
        with torch.enable_grad():
            b = w * 3
    with torch.set_grad_enabled(False):
        c = w * 4
    return a * w + b + c * w, a.requires_grad, b.requires_grad, c.requires_grad


@program(leaf, whole=True, backward=True)
def grad_modes_as_decorators(w):
    @torch.no_grad()
    def off(x):
        return x * 2

    @torch.enable_grad()
    def on(x):
        return x * 3

    @torch.set_grad_enabled(False)
    def switched(x):
        return x * 5

    with torch.no_grad():
        y = on(w)
    return off(w) * w + y + switched(w) * w


@program(leaf, whole=True)
def grad_mode_as_function(w):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    a = w * 2
    torch.set_grad_enabled(before)
    return a.requires_grad, (w * 2).requires_grad


@program(leaf, whole=True)
def inference(w):
    with torch.inference_mode():
        a = w * 2
        inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled(), a.is_inference()
    return a, inside, torch.is_inference_mode_enabled(), a.is_inference(), a.requires_grad


@program(leaf, whole=True)
def inference_off(w):
    with torch.inference_mode(False):
        a = w * 2
    return a, a.is_inference()


@program(leaf, whole=True)
def inference_as_decorator(w):
    @torch.inference_mode()
    def f(x):
        return x * 3

    return f(w), f(w).is_inference()


@program(leaf)
def inference_around_a_break(w):
    with torch.inference_mode():
        a = w * 2
        print("inside", torch.is_inference_mode_enabled())
        b = a * 3
    return b, b.is_inference(), torch.is_inference_mode_enabled(), (w * 2).requires_grad


@program(leaf, whole=True)
def modes_inside_inference(w):
    with torch.inference_mode():
        with torch.enable_grad():
            a = w * 2, torch.is_grad_enabled()
        with torch.inference_mode(False):
            b = w * 3, torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        c = w * 4, torch.is_grad_enabled()
    return a, b, c, torch.is_grad_enabled(), (w * 2).requires_grad, b[0].requires_grad


@program(leaf, graphs=False)
def raises_inside_inference(w):
    try:
        with torch.inference_mode():
            y = w.reshape(7)
    except RuntimeError:
        y = w * 2
    return y.is_inference(), torch.is_inference_mode_enabled(), torch.is_grad_enabled()


@torch.inference_mode()
def inferring(w):
    return torch.relu(w) + 1


@program(leaf, whole=True)
def calls_inferring(w):
    return inferring(w)


# -- Backward passes inside --------------------------------------------------------------------------------------------


@program(leaf, whole=True)
def grad_inside(w):
    y = (w**3).sum()
    (g,) = torch.autograd.grad(y, w)
    return g * 2


@program(leaves, whole=True)
def grad_of_several(w, b):
    y = torch.sin(w * b)
    return torch.autograd.grad(y, (w, b), torch.ones_like(y))


@program(leaf, whole=True, backward=True)
def double_backward(w):
    y = (w**3).sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    return (g * g).sum() + y


@program(leaf)
def backward_inside(w):
    loss = (w * w * 3).sum()
    loss.backward()
    return w.grad + 1


@program(leaf, keeps=True)
def backward_inside_twice(w):
    loss = (w * w * 3).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss.detach()


@program(leaf)
def torchs_backward(w):
    y = w * w
    torch.autograd.backward([y], [torch.ones_like(y)])
    return w.grad


@program(leaf, whole=True)
def unused_inputs(w):
    other = torch.ones(3, requires_grad=True)
    return torch.autograd.grad((w * 2).sum(), (w, other), allow_unused=True)


@program(leaf, whole=True)
def grads_of_a_second_order(w):
    y = (w**4).sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), w)
    return h


# -- Hooks -------------------------------------------------------------------------------------------------------------


@program(leaves, whole=True, backward=True)
def hooks(w, b):
    y = w * 2
    y.register_hook(lambda g: g * 10 * b)
    y.register_hook(lambda g: None)
    z = y * y
    z.register_hook(torch.sin)
    return z * y


@program(leaf, backward=True, durable=False)  # a handle's number is counted up
def hooks_that_print(w):
    y = w * 2
    y.register_hook(lambda g: print("gradient", g.shape))
    handle = y.register_hook(lambda g: g * 0)
    handle.remove()
    return y * 3


@program(leaf, backward=True)
def hooks_that_read_what_changes(w):
    """What a hook finds in a container is what is there when the backward pass runs."""
    factors = []
    y = w * 2
    y.register_hook(lambda g: g * len(factors))
    z = y * y
    factors.append(1)
    factors.append(2)
    return z


@program(leaf, backward=True)
def retained(w):
    y = w * 2
    y.retain_grad()
    return (y * y).sum(), y, y.retains_grad


@program(leaf, backward=True)
def accumulated_hooks(w):
    w.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2))
    return (w * w).sum()


# -- Checkpoints -------------------------------------------------------------------------------------------------------


def block(x, y):
    return torch.tanh(x * y).exp()


@program(leaves, whole=True, backward=True)
def checkpointed(w, b):
    return checkpoints.checkpoint(block, w, b, use_reentrant=False)


@program(leaves, whole=True, backward=True)
def checkpointed_reentrant(w, b):
    return checkpoints.checkpoint(block, w * 1, b, use_reentrant=True)


@program(leaves, whole=True, backward=True)
def checkpointed_dropout(w, b):
    def f(x):
        return torch.nn.functional.dropout(x * b, 0.5) * x

    return checkpoints.checkpoint(f, w, use_reentrant=False)


@program(leaves, whole=True, backward=True)
def checkpointed_structures(w, b):
    def f(pair, scale=1.0):
        return {"a": pair[0] * scale, "b": (pair[1], 3)}

    made = checkpoints.checkpoint(f, (w * 2, b), scale=2.0, use_reentrant=False)
    return made["a"] * made["b"][0], made["b"][1]


def stacked():
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3), torch.nn.ReLU())
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * (number + 1))
    return made, torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_()


@program(stacked, whole=True, backward=True)
def checkpointed_sequence(made, w):
    return checkpoints.checkpoint_sequential(made, 2, w, use_reentrant=False)


@program(leaf, graphs=False, backward=True)
def checkpoint_that_prints(w):
    def f(x):
        print("runs")
        return x.exp()

    return checkpoints.checkpoint(f, w, use_reentrant=False)


# -- Modes of autograd -------------------------------------------------------------------------------------------------


@program(leaf, graphs=False, backward=True)
def saved_hooks(w):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x * 2, lambda x: x):
        y = w * w
    return y + 1


@program(leaf, graphs=False, backward=True)
def saved_on_cpu(w):
    with torch.autograd.graph.save_on_cpu():
        y = w * w.exp()
    return y + 1


@program(leaf, backward=True)
def saved_hooks_disabled(w):
    with torch.autograd.graph.disable_saved_tensors_hooks("no"):
        return w * w


@program(leaf, backward=True)
def anomalies(w):
    with torch.autograd.detect_anomaly():
        y = w.exp() * 2
    return y + 1


@program(leaf, backward=True)
def anomaly_mode_set(w):
    with torch.autograd.set_detect_anomaly(False):
        y = w.exp() * 2
    return y, torch.is_anomaly_enabled()


@program(leaf, backward=True)
def sequences_of_contexts(w):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        y = w * 2
    return y * w


@program(leaf)
def requires_grad_turned_on(w):
    x = w.detach().clone().requires_grad_()
    y = (x * x).sum()
    y.backward()
    return x.grad, x


@program(leaf)
def graph_is_read(w):
    y = w * 2
    return type(y.grad_fn).__name__, y.grad_fn is None, y.is_leaf


@program(leaf)
def backward_with_a_graph(w):
    y = (w**3).sum()
    y.backward(create_graph=True)
    g, w.grad = w.grad, None
    (g * g).sum().backward()
    return w.grad * 2


def with_history():
    w = leaf()[0]
    return w, w * 3


@program(with_history)
def gradients_of_a_history_from_outside(w, h):
    y = (h * h).sum()
    (g,) = torch.autograd.grad(y, w, retain_graph=True)
    y.backward()
    return g + 1, w.grad * 2


@program(leaf)
def backward_twice(w):
    y = (w * w).sin().sum()
    y.backward(retain_graph=True)
    first = w.grad.clone()
    y.backward()
    try:
        y.backward()
    except RuntimeError as error:
        return first, w.grad + 1, str(error)[:40]


@program(leaves)
def backward_in_its_forms(w, b):
    y = w * b
    y.sum().backward(inputs=[w], retain_graph=True)
    y.backward(torch.ones_like(y), retain_graph=True)
    torch.autograd.backward([y, y * 2], [torch.ones_like(y)] * 2)
    return w.grad + 1, b.grad


@program(leaf)
def hook_on_a_leaf(w):
    seen = []
    handle = w.register_hook(lambda g: seen.append(g.sum()) or g * 2)
    (w * w).sum().backward()
    handle.remove()
    return w.grad + 1, seen


@program(leaf)
def hook_behind_accumulation(w):
    seen = []
    handle = w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    (w * w).sum().backward()
    handle.remove()
    return seen, w.grad + 1


@program(leaf)
def anomaly_is_told(w):
    with torch.autograd.detect_anomaly():
        y = (w * 0).sqrt().sum() * 0
        try:
            y.backward()
        except RuntimeError as error:
            return str(error)[:40], w + 1


@program(leaf)
def write_to_what_is_saved(w):
    z = (w * 2).exp()
    z.add_(1)
    try:
        z.sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error), w + 1


@program(leaf)
def versions(w):
    x = w.detach().clone()
    before = x._version
    x.add_(1)
    x.mul_(2)
    return x._version - before, x * 2


@program(leaf)
def leaf_of_its_own(w):
    x = w.detach().clone().requires_grad_()
    (x * x).sum().backward()
    return x.grad + 1
