"""Corners of tensors: gradients, views and writes around breaks."""

# (what is written the long way is what is tested)

import torch
from differential import loud as print
from differential import program


def noisy(value):
    print("noisy", type(value).__name__)
    return value


@program(lambda: (torch.ones(2, 3, requires_grad=True),))
def gradients_over_breaks(x):
    y = x * 2
    print("one")
    z = (y * y).sum()
    print(z.requires_grad)
    (g,) = torch.autograd.grad(z, x, create_graph=True)
    print("grad")
    g.sum().backward()
    return z.detach(), g.detach(), x.grad


@program(lambda: (torch.ones(2, 3, requires_grad=True),))
def detached_and_in_place(x):
    y = x.detach()
    z = x.clone()
    z += 1
    print(z.requires_grad)
    with torch.no_grad():
        x += 1
        print("in place")
    z.mul_(x)
    return y, z, x


@program()
def inference_mode(x):
    with torch.inference_mode():
        y = x + 1
        print(y.is_inference())
        z = y * 2
    return y.is_inference(), z.tolist(), x + 1


@program()
def view_chains(x):
    a = x.view(3, 2)
    b = a[1:]
    print("views")
    b.add_(10)
    c = b.t()
    print(x)
    c.zero_()
    return a, b, c, x


@program()
def resized_and_swapped(x):
    y = x.clone()
    y.resize_(2, 2)
    print(y.shape)
    y.fill_(3)
    z = y.set_(x.storage()) if noisy(0) else y
    return z is y, z


@program()
def out_arguments(x):
    out = torch.empty(2, 3)
    torch.add(x, 1, out=out)
    print(out)
    same = torch.mul(out, 2, out=out)
    return same is out, out


@program()
def splits_and_unbind(x):
    a, b, c = x.unbind(1)
    a.add_(1)
    print("unbound")
    parts = torch.split(x, 1)
    parts[0].mul_(2)
    return a, b, c, parts, x


@program()
def numbers_from_tensors(x):
    n = x.sum().item()
    k = int(n) % 3
    print(n, k)
    y = x.repeat(k + 1, 1)
    return y, y.shape, [float(v) for v in x[0]], x[0].tolist()


@program()
def tensor_truth(x):
    found = []
    for row in x:
        if (row > 0).any():
            found.append(row.max())
        elif not row.sum():
            found.append(row)
        else:
            found.append(None)
    return found, all(v is not None for v in found), any((row < 0).all() for row in x)


@program()
def shapes_in_python(x):
    a, b = x.shape
    shape = x.shape
    print(shape, a * b)
    y = x.view(*shape[::-1])
    return y, shape + (1,), torch.Size((a, b)) == shape, len(shape), shape.numel()


@program(lambda: (torch.nn.Linear(3, 3), torch.ones(2, 3)), keeps=True, calls=3)
def training_steps(m, x):
    torch.manual_seed(0)
    with torch.no_grad():
        for p in m.parameters():
            p.fill_(0.5)
    loss = m(x).pow(2).sum()
    print(loss.shape)
    loss.backward()
    with torch.no_grad():
        for p in m.parameters():
            p -= 0.1 * p.grad
    m.zero_grad()
    return loss.detach(), [p.detach().clone() for p in m.parameters()]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("steps", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        for i, layer in enumerate(self.layers):
            x = layer(x).relu()
            print("layer", i)
        return self.norm(x) * self.calls


@program(lambda: (Net(), torch.arange(6.0).reshape(2, 3)), keeps=True, calls=3)
def module_with_breaks(m, x):
    y = m(x)
    print(m.training)
    m.eval()
    z = m(y)
    m.train()
    return y.detach(), z.detach(), m.steps, m.calls, m.norm.running_mean


@program(lambda: (Net(), torch.arange(6.0).reshape(2, 3)), keeps=True, calls=2, durable=False)
def hooks_on_modules(m, x):
    found = []
    handle = m.layers[0].register_forward_hook(lambda mod, args, out: found.append(out.detach()) or out * 2)
    y = m(x)
    handle.remove()
    print(len(found))
    return y.detach(), found, m(x).detach()


def apart_then_overlapping(state=[0]):  # noqa: B006
    state[0] += 1
    base = torch.arange(8.0)
    return base[:4], base[4:] if state[0] % 2 else base[1:5], []


@program(apart_then_overlapping, calls=4)
def a_write_raises_for_how_its_operands_lie(a, b, seen):
    seen.append((a + b).sum())
    a.add_(b)
    seen.append("written")
    return a * 2


@program(apart_then_overlapping, calls=4)
def the_second_write_raises_for_it(a, b, seen):
    b.mul_(2)
    a.add_(b)
    return a * 2, b


def of_one_dtype_then_of_two(state=[0]):  # noqa: B006
    state[0] += 1
    return torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64 if state[0] % 2 == 0 else torch.float32), []


@program(of_one_dtype_then_of_two, calls=4)
def a_kernel_wants_one_dtype(a, b, seen):
    total = a + b
    seen.append("before")
    a.mul_(2)
    seen.append((total @ torch.full((3, 2), 0.5)).sum())
    return a * 2


@program(of_one_dtype_then_of_two, calls=4)
def layers_want_one_dtype(a, b, seen):
    seen.append("before")
    a.add_(1)
    seen.append(torch.nn.functional.linear(b, torch.ones(2, 3)))
    seen.append(torch.nn.functional.conv1d(b[None], torch.ones(2, 2, 1)))
    return a * 2


@program(lambda: (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)))
def data_set_behind_a_write(a, b):
    b[1].add_(0.5)
    b.data = a
    return b.tolist(), b + 1, b._version


@program(lambda: (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)))
def a_write_behind_data_set(a, b):
    b.data = a * 2
    b.add_(1)
    return b + 1, b._version


@program(lambda: (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)))
def data_of_a_view(a, b):
    view = (a * b)[1]
    view.data = b[0]
    return view + 1, view, view._is_view()


@program(lambda: (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)))
def numbers_of_data_set(a, b):
    row = b[0]
    b.data = a
    row.add_(1)
    return b.tolist(), row.tolist(), b.sum().item(), a + 1
