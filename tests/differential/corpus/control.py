"""Breaks in loops, conditions, expressions and statements of every kind."""

# ruff: noqa: B008, C417, F821, PIE804, SIM108, UP037
# (what is written the long way is what is tested)

import torch
from differential import loud as print
from differential import program


def noisy(value):
    print("noisy", type(value).__name__)
    return value


# -- Loops ------------------------------------------------------------------------------------------------------------


@program()
def in_a_for_loop(x):
    total = x
    for i in range(3):
        total = total + i
        print(i)
        total = total * 2
    return total


@program()
def in_a_while_loop(x):
    n = 0
    while n < 3:
        x = x + n
        print("n", n)
        n += 1
    return x, n


@program()
def in_nested_loops(x):
    found = []
    for i in range(2):
        x = x + 1
        for j in (5, 6):
            x = x * j
            print(i, j)
            found.append(x.sum())
        x = x - 1
    return found, x


@program()
def break_and_continue(x):
    for i in range(6):
        if i == 1:
            print("skip")
            continue
        x = x + i
        if i == 4:
            print("leave")
            break
        x = x * 2
    else:
        x = x - 1000
    return x, i


@program()
def loop_with_else(x):
    for i in [1, 2]:
        x = x + i
        print(i)
    else:
        x = x * 3
        print("else")
    return x + 1


@program()
def while_on_data(x):
    count = 0
    while x.sum() < 40:
        x = x + 1
        count += 1
    return x, count


@program()
def loop_over_tensor_rows(x):
    found = []
    for row in x:
        found.append(row * 2)
        print(row.shape)
    return found


@program()
def loop_over_a_list_that_grows(x):
    items = [1, 2]
    for i in items:
        x = x + i
        print(i)
        if len(items) < 5:
            items.append(i * 10)
    return x, items


@program()
def enumerate_alive(x):
    for i, v in enumerate([3, 4, 5], start=7):
        x = x + i * v
        print(i, v)
    return x


@program()
def zip_alive(x):
    for a, b in zip([1, 2, 3], (4, 5, 6)):
        x = x + a * b
        print(a, b)
    return x


@program()
def map_alive(x):
    for y in map(lambda v: x * v, [1, 2, 3]):
        x = y + 1
        print("mapped")
    return x


@program()
def filter_alive(x):
    for v in filter(lambda v: v % 2, range(6)):
        x = x + v
        print(v)
    return x


@program()
def chain_alive(x):
    import itertools

    for v in itertools.chain([1, 2], (3,), range(4, 6)):
        x = x + v
        print(v)
    return x


@program()
def reversed_alive(x):
    for v in reversed([1, 2, 3]):
        x = x * v
        print(v)
    return x


@program()
def islice_cycle_alive(x):
    import itertools

    for v in itertools.islice(itertools.cycle([1, 2, 3]), 5):
        x = x + v
        print(v)
    return x


@program()
def product_alive(x):
    import itertools

    for a, b in itertools.product([1, 2], repeat=2):
        x = x + a * b
        print(a, b)
    return x


@program()
def count_takewhile_alive(x):
    import itertools

    for v in itertools.takewhile(lambda v: v < 4, itertools.count(1)):
        x = x + v
        print(v)
    return x


@program()
def dict_items_alive(x):
    d = {"a": 1, "b": 2, "c": 3}
    for k, v in d.items():
        x = x + v
        print(k)
    return x


@program()
def dict_changed_while_iterating(x):
    d = {"a": 1, "b": 2}
    for k in d:
        x = x + 1
        print(k)
        d[k + "2"] = 3
    return x


@program()
def zip_strict_too_short(x):
    for a, b in zip([1, 2, 3], [4, 5], strict=True):
        x = x + a * b
        print(a)
    return x


@program()
def string_alive(x):
    for c in "abc":
        x = x + ord(c)
        print(c)
    return x


@program()
def shared_iterator(x):
    it = iter([1, 2, 3, 4, 5, 6])
    for a in it:
        x = x + a
        print(a)
        x = x * next(it)
    return x, list(it)


@program()
def iterator_returned_half_used(x):
    it = iter([x, x + 1, x + 2])
    first = next(it)
    print("used one")
    return first * 2, it


@program()
def zip_of_one_iterator(x):
    it = iter(range(6))
    for a, b in zip(it, it):
        x = x + a * b
        print(a, b)
    return x


@program(calls=1)
def many_breaks(x):
    for i in range(10_000):
        x = x + 1
        print(i, end="")
    return x


@program(calls=1)
def many_breaks_in_a_while_loop(x):
    n = 0
    while n < 3000:
        if n % 2:
            x = x + 1
        else:
            x = x * 1.0001
        noisy(n)
        n += 1
    return x


# -- Conditions -------------------------------------------------------------------------------------------------------


@program()
def if_on_data(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y - 1


@program()
def if_and(x):
    if x.sum() > 0 and (x * 2).max() > 4:
        x = x + 10
    else:
        x = x - 10
    return x * 2


@program()
def if_or_not(x):
    if not (x.sum() > 100 or x.min() < -5):
        x = x * 3
    return x + 1


@program()
def value_of_or(x):
    a = (x.sum() - x.sum()) or x + 5
    b = x.sum() and x - 5
    return a, b


@program()
def ternary(x):
    y = x * 2 if (x + 1).sum() > 0 else x * 3
    return (y if noisy(y).sum() < 0 else y + 1) * 2


@program()
def chained_comparison(x):
    if 0 < x.sum() < 100:
        x = x + 1
    print("chained", 1 < len(noisy([1, 2])) < 5)
    return x * 2, -100 < x.min() <= x.max()


@program()
def walrus(x):
    if (n := x.sum()) > 1:
        x = x + n
    while (m := noisy(x).max()) < 20:
        x = x + m
    return x, n, m, [y := x + 1, y * 2]


@program()
def assertion_holds(x):
    y = x + 1
    assert y.sum() > 0, "sum"
    return y * 2


@program()
def assertion_fails(x):
    y = x + 1
    assert y.sum() < 0, f"sum {y.sum().item()}"
    return y * 2


# -- Expressions and statements ---------------------------------------------------------------------------------------


@program()
def last_instruction(x):
    x = x + 1
    return print(x)


@program(graphs=False)
def last_instruction_without_tensors(x):
    x = x + 1
    return print(x.shape)


@program()
def first_instruction(x):
    print("first")
    return x + 1


@program()
def several_in_one_expression(x):
    return noisy(x + 1) + noisy(x * 2) - noisy(x).sum() * noisy(3)


@program()
def augmented_names(x):
    x += noisy(x + 1)
    x *= noisy(2)
    return x


@program()
def augmented_items(x):
    found = [x, x + 1, {"k": x}]
    found[0] += noisy(x)
    found[noisy(1)] = found[1] * 2
    found[2]["k"] -= noisy(1)
    return found


@program()
def augmented_slices(x):
    x[0] += noisy(1)
    x[1, noisy(1) :] *= 2
    return x * 2


@program()
def subscripts(x):
    found = {"a": [x, x * 2], "b": x + 3}
    y = found[noisy("a")][noisy(1)]
    return y[noisy(0)], x[noisy(0) : 1], x[..., noisy(None)]


@program()
def f_strings(x):
    y = x + 1
    text = f"{y.shape} {noisy(1):>4} {y.sum().item():.2f} {noisy('a')!r}"
    return y * 2, text


@program()
def calls_with_all_kinds_of_arguments(x):
    def callee(a, b, *rest, c=1, **more):
        print(sorted(more))
        return a + b * c + sum(rest)

    args, kwargs = [noisy(1), 2], {"c": noisy(3)}
    y = callee(x, *args, **kwargs)
    y = callee(y, b=noisy(2), c=4, d=5)
    return callee(*[y, noisy(1)], 2, 3, **{"c": 1}, **{"e": noisy(2)})


@program()
def displays(x):
    y = x + 1
    return [noisy(y), *noisy([1, 2])], (y, noisy(2)), {noisy("k"): y, **noisy({"l": 3})}, {noisy(1), 2}


@program()
def unpacking(x):
    a, (b, *c) = noisy((x + 1, [x, 1, 2]))
    (d, e), *f = [noisy([1, 2]), x * 2, 3]
    first, *_, last = noisy([x, 1, x + 5])
    return a, b, c, d, e, f, first, last


@program()
def unpacks_too_few(x):
    y = x + 1
    a, b, c = noisy([y, 2])
    return a


@program()
def unpacks_a_tensor(x):
    a, b = x + 1
    print("unpacked")
    c, *d = a
    return a, b, c, d


@program()
def deletions(x):
    y = x + 1
    found = {"a": 1, "b": y}
    row = [1, 2, 3]
    del found[noisy("a")], row[noisy(0)]
    z = y * 2
    del y
    print("deleted")
    try:
        return y
    except UnboundLocalError as error:
        return z, found, row, str(error)


@program()
def comprehensions(x):
    squares = [noisy(x) * i for i in range(3) if noisy(i) != 1]
    table = {i: x + i for i in noisy((1, 2))}
    nested = [[x * i + j for j in range(2)] for i in noisy(range(2))]
    total = sum(noisy(i) for i in (1, 2, 3))
    return squares, table, nested, total, {i % 2 for i in noisy([1, 2, 3])}


@program()
def conditional_imports(x):
    import math

    y = x + math.pi
    print("imported")
    from math import e

    return y * e


@program()
def matching(x):
    found = []
    for subject in ({"k": x, "l": 1}, [1, x, 3], (2,), 5, "text", x):
        match noisy(subject):
            case {"k": value, **rest}:
                found.append((value + 1, rest))
            case [1, y, *rest] if noisy(rest):
                found.append((y * 2, rest))
            case [only]:
                found.append(only)
            case int(n) | str(n):
                found.append(n)
            case torch.Tensor():
                found.append(x - 1)
    return found


@program()
def lambdas(x):
    f = lambda y, k=noisy(2): noisy(y) * k  # noqa: E731
    return f(x) + f(x + 1, 3)


@program()
def slices_kept(x):
    s = slice(noisy(0), 1)
    print(s)
    return x[s], s


@program()
def returns_in_the_middle(x):
    for i in range(4):
        x = x + i
        print(i)
        if i == 2:
            return x, "early"
    return x, "late"


@program()
def returns_nothing(x):
    x.add_(1)
    print("no value")
    x.mul_(2)


@program()
def item_in_python(x):
    n = int(x.sum().item())
    y = x + n
    return y[: n % 2 + 1], n, float(x.max()), bool(x.min() < 0), x.tolist()


@program()
def item_then_range(x):
    for i in range(int(x.max().item())):
        x = x + i
        print(i)
    return x


@program()
def nonzero_shapes(x):
    y = x[x > 0]
    z = y * 2
    return z, torch.nonzero(x).shape[0], z.shape


@program(graphs=False)
def no_tensors(x):
    found = []
    for i in range(3):
        print(i)
        found.append(i)
    return found


@program(lambda: (torch.ones(2), 3, "k"), calls=3)
def python_arguments(x, n, key):
    found = {key: x * n}
    print(n)
    found[key * 2] = x + n
    return found


@program()
def random_numbers(x):
    import random

    a = torch.rand(3) + x
    print(random.random())
    b = torch.randn(2, 3) * a
    n = random.randint(1, 5)
    return a, b, n, torch.nn.functional.dropout(x, 0.5)


@program()
def integer_division_and_shapes(x):
    n, m = x.shape
    for i in range(n):
        x = x.reshape(m, n).t().contiguous() + i // 2
        print(x.shape, x.stride())
    return x


@program()
def short_circuit_with_values(x):
    a = None or noisy(x)
    b = [] or noisy([]) or a + 1
    c = 1 and noisy(0) and x
    d = not noisy(0)
    return a * 2, b, c, d


@program()
def is_and_in(x):
    y = [x, 1]
    print(noisy(x) is x, noisy(1) in [1, 2], noisy(x) is not None, 3 not in noisy([3]))
    return y[0] is x, 1 in y[1:], noisy(y) is y, x + 1


@program()
def star_in_return_and_index(x):
    rest = noisy([1, 2])
    return *rest, x + 1, x[*[0, noisy(1)]]


@program()
def type_annotations(x):
    y: int = noisy(1)
    z: "torch.Tensor"
    z = x + y
    print("annotated")
    return z * y


@program()
def unbound_after_break(x):
    if x.sum() > 100:
        y = 1
    x = x + 1
    print("before")
    return x + y
