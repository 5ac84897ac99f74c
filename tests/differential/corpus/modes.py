"""Modes and contexts of torch: autocast, devices, dtypes, flags, function and dispatch modes, random state."""

import torch
import torch.nn.functional as F
from differential import program
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def leaf():
    return (torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_(),)


@program(leaf, whole=True, backward=True)
def autocasts(w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = w @ w.T
        with torch.autocast("cpu", enabled=False):
            z = w @ w.T
        with torch.autocast("cpu", dtype=torch.float16):
            h = w @ w.T
    return y.float() + z + h, y.dtype, z.dtype, h.dtype


@program(leaf, whole=True, backward=True)
def autocast_as_decorator(w):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def f(x):
        return x @ x.T

    return f(w).float(), f(w).dtype


@program(leaf, whole=True, backward=True)
def amps_autocast(w):
    with torch.amp.autocast("cpu"):
        return F.linear(w, w).float()


@program(whole=True)
def device_as_context(x):
    with torch.device("meta"):
        y = torch.ones(2, 3)
    with torch.device("cpu"):
        z = torch.ones(2, 3)
    return y.device, z.device, x + z


@program(whole=True)
def device_of_factories(x):
    with torch.device("meta") as entered:
        a = torch.ones(2)
        with torch.device("cpu"):
            b = torch.ones(2) + torch.full((2,), 3.0)
        c, like, hot = torch.empty(2), x.new_ones(2), torch.zeros_like(x)
        depth, default = torch._C._len_torch_function_stack(), torch.get_default_device()
    after = torch._C._len_torch_function_stack(), torch.get_default_device()
    return a.device, b, c.device, like, hot, depth, default, after, entered


@program()
def breaks_under_a_device(x):
    with torch.device("cpu"), torch.device("meta"):
        y = torch.ones(3) if x.sum() > -100 else torch.zeros(3)
        z = x * 2
    return y.device, z, torch.zeros(2), torch._C._len_torch_function_stack()


@program()
def raises_under_a_device(x):
    try:
        with torch.device("meta"):
            y = x + 1
            raise ValueError
    except ValueError:
        pass
    return y[0] + torch.ones(3), torch._C._len_torch_function_stack()


@program()
def device_inside_a_default_device(x):
    torch.set_default_device("meta")
    try:
        with torch.device("cpu"):
            y = torch.ones(3)
        default, z = torch.get_default_device(), torch.ones(3)
    finally:
        torch.set_default_device(None)
    return y + 1, default, z.device, torch.ones(2)


@program()
def default_device_changed(x):
    torch.set_default_device("meta")
    y = torch.ones(3)
    torch.set_default_device(None)
    return y.device, torch.ones(2) + 1, x


@program()
def default_dtype_changed(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(3)
    torch.set_default_dtype(before)
    return y, torch.ones(2), x * 2


@program()
def deterministic(x):
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    y = x.cumsum(0), torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before)
    return y, torch.are_deterministic_algorithms_enabled(), x * 2


def attended():
    return (torch.linspace(-1, 1, 48).reshape(1, 2, 4, 6).requires_grad_(),)


@program(attended, whole=True, backward=True)
def chosen_attention(q):
    with sdpa_kernel(SDPBackend.MATH):
        y = F.scaled_dot_product_attention(q, q, q)
    return y, torch.backends.cuda.flash_sdp_enabled()


@program(attended, whole=True, backward=True)
def chosen_attentions(q):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@program(whole=True)
def recorded(x):
    with torch.profiler.record_function("mine"):
        y = x * 2
    with torch.autograd.profiler.record_function("other"):
        return y + 1


@program()
def forked_random(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        y = torch.rand(2, 3)
    return x + y + torch.rand(2, 3)


@program()
def state_of_random(x):
    state = torch.get_rng_state()
    a = torch.rand(2, 3)
    torch.set_rng_state(state)
    return x + a - torch.rand(2, 3)


@program()
def own_generator(x):
    g = torch.Generator().manual_seed(7)
    return x + torch.rand(2, 3, generator=g), torch.randn(2, generator=g)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


@program(graphs=False)
def function_mode(x):
    with Doubling():
        y = torch.sin(x)
    return y, torch.sin(x)


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@program(graphs=False)
def dispatch_mode(x):
    with Counting() as mode:
        y = torch.sin(x) + 1
    return y * 2, mode.seen


@program()
def flags_inside(x):
    before = torch.backends.mkldnn.enabled
    y = x @ x.T
    with torch.backends.mkldnn.flags(enabled=False):
        z = x @ x.T, torch.backends.mkldnn.enabled
    return y, z, before, torch.backends.mkldnn.enabled


@program()
def precision(x):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    y = x @ x.T, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(before)
    return y, x + 1


@program()
def torch_function_disabled(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x * 2
    return y + 1


@program()
def threads(x):
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    y = x @ x.T, torch.get_num_threads()
    torch.set_num_threads(n)
    return y, x + 1


G = torch.Generator()


def with_generator():
    return torch.linspace(-1.0, 2.0, 3), torch.Generator().manual_seed(3)


@program(with_generator, calls=3, whole=True)
def generators_seeded_and_drawn_from(x, given):
    own = torch.Generator().manual_seed(2)
    y = x + torch.rand(3, generator=own) * torch.randn(3, generator=given, dtype=torch.float64)
    before = own.get_state()
    a = torch.randint(0, 9, (2, 2), generator=own)
    own.set_state(before)
    return (
        y,
        a,
        torch.randint(9, (2, 2), generator=own),
        torch.randperm(5, generator=G.manual_seed(1)),
        given.get_state(),
    )


@program(with_generator, calls=2, whole=True)
def seeded_before_it_draws(x, given):
    y = x * 2
    before = torch.get_rng_state()
    torch.manual_seed(9)
    torch.set_rng_state(before)
    torch.manual_seed(7)
    return y + torch.rand(3) + torch.rand(3, generator=given), torch.randn(2)


@program(with_generator, calls=2)
def seeded_behind_what_it_drew(x, given):
    y = x + torch.rand(3)
    state = torch.get_rng_state()
    z = torch.rand(3)
    torch.set_rng_state(state)
    x.normal_(generator=given)
    return y, z, torch.rand(3), torch.multinomial(x.abs() + 1, 2, generator=given)


@program(whole=True)
def default_dtype_there_and_back(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = torch.ones(2), torch.arange(3) / 2, torch.tensor([x.sum(), 2.5]), torch.get_default_dtype()
        return made, torch.result_type(torch.arange(3), 1.5), x * torch.ones(3)
    finally:
        torch.set_default_dtype(before)


@program(apart=True)
def printed_in_a_branch(x):
    def more(x):
        print("more")
        return x + 1

    try:
        return torch.cond(x.sum() > 0, more, lambda x: x - 1, (x,))
    except RuntimeError as error:
        return x * 2, type(error).__name__
