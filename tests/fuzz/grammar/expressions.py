"""Expressions by kind, and what one is where nothing may go deeper."""

from __future__ import annotations

LEAVES = {
    "tensor": ("torch.ones(2, 3)", "torch.full((2, 3), 0.5)"),
    "int": ("0", "1", "2", "3"),
    "small": ("0", "1", "2", "3"),
    "pos": ("1", "2", "3"),
    "float": ("0.5", "-0.0", "1.25"),
    "str": ("'a'", "'bab'", "''"),
    "key": ("'a'", "'b'", "'c'"),
    "bool": ("True", "False"),
    "ints": ("(3, 1, 2)", "range(3)"),
    "list": ("[1, 2]", "[]"),
    "dict": ("{'a': 1}", "{}"),
    "set": ("{1, 2}", "set()"),
    "deque": ("collections.deque([1, 2], 4)",),
    "tuple": ("(1, 2)", "()"),
    "obj": ("Box(1)", "Sub(2, 1)"),
    "fn": ("torch.relu", "double", "operator.neg"),
    "cond": ("True", "False"),
    "exc": ("ValueError(1)", "KeyError('k')", "Own(2, 'own')", "IndexError('i')", "StopIteration(3)"),
    "caught": ("ValueError", "KeyError", "Own", "(KeyError, IndexError)", "Exception", "LookupError"),
}
"""What an expression is where nothing may go deeper, besides the names in scope."""

EXPRESSIONS = {
    "tensor": """
        <tensor> + <tensor>
        <tensor> + <tensor>
        <tensor> * <num>
        <num> - <tensor>
        -<tensor>
        <tensor>.relu()
        <tensor>.clone()
        <tensor>.flip(0)
        <tensor>.sum() + <tensor>
        <tensor>.view(3, 2).t()
        <tensor>[:, [2, 1, 0]]
        <tensor>.roll(<small>, 1)
        <tensor>.mean(0) * <tensor>
        <tensor>[0] + <tensor>
        <tensor>.to(torch.float64).float()
        <tensor>.detach()
        torch.maximum(<tensor>, <tensor>)
        torch.where(<tensor> > <num>, <tensor>, <tensor>)
        torch.cat([<tensor>[:1], <tensor>[1:]])
        torch.stack([<tensor>, <tensor>]).sum(0)
        torch.stack([<tensor> * x for x in (1, 2)])[<bit>]
        <tensor>.masked_fill(<tensor> > 0, <num>)
        torch.add(<tensor>, <tensor>, alpha=<pos>)
        sum([<tensor>, <tensor>])
        functools.reduce(operator.mul, [<tensor>, <tensor>])
        <tensor> + torch.rand(2, 3)
        <val> * <tensor>
        <fn>(<tensor>)
        <fn>(<tensor>)
        <obj>.value * <tensor>
        <obj>.apply(<tensor>)
        <obj>(<tensor>)
        (<obj> + <tensor>).value
        (<tensor> if <cond> else <tensor>)
        (lambda a, b=<int>: a + b)(<tensor>)
        (lambda *a, **k: a[0] * k['n'])(<tensor>, n=<num>)
        ((w := <tensor>) + w)
        helper(<tensor>, <int>)
        helper(<tensor>, n=<int>)
        helper(*(<tensor>,), **{'n': <int>})
        compose(<fn>, <fn>)(<tensor>)
        scaled(<num>)(<tensor>)
        {'a': <tensor>, 'b': <tensor>}[<ab>]
        [<tensor>, <tensor>][<bit>]
        (<tensor>, <tensor>)[-<pos>]
        max((<tensor>, <tensor>), key=lambda a: a.dim())
        next(iter([<tensor>]))
        recurse(<tensor>, <small>)
        Layer.shared(<tensor>)
        layer(<tensor>)
        Slotted(<tensor>).value
        torch.add(<tensor>, 1, out=torch.empty(2, 3))
        sum((x * k for k, x in enumerate((<tensor>, <tensor>), start=<pos>)), <tensor>)
        dict(zip('ab', (<tensor>, <tensor>), strict=True))[<ab>]
        type(<obj>).make(<tensor>).value
        written(<tensor!>)
        written(<tensor!>[:1])[0] + <tensor>
        (Vec(<tensor>) + Vec(<num>)).x
        (<num> * Vec(<tensor>)).x
        chosen(<tensor>)
        chosen(<any>) * <tensor>
        sum(itertools.starmap(operator.mul, [(<tensor>, <num>), (<tensor>, <int>)]))
        functools.partial(helper, <tensor>)(n=<int>)
        spread(<tensor>, *<ints>, k=<int>, **{'z': <num>})
        MODULE.helper(<tensor>, <int>)
        torch.add(*(<tensor>, <tensor>))
        <tensor!>.view(-1)[:6].view(2, 3)
        (<tensor> @ <tensor>.t()).sum() * <tensor>
    """,
    "int": """
        <int> + <int>
        <int> * <int> % 7
        <int> - <int>
        <int> // <pos>
        <int> % <pos>
        -<int>
        ~<int> & 7
        <int> ^ <int>
        len(<list>)
        len(<dict>)
        len(<str>)
        len(<set>)
        len(<obj>)
        <tensor.>.shape[1]
        <tensor.>.dim()
        <tensor.>.numel()
        sum(<ints>)
        min(<int>, <int>)
        max(<ints>, default=<int>)
        abs(<int>)
        int(<float>)
        round(<float>)
        divmod(<int>, 3)[<bit>]
        <str>.count('a')
        <str>.find('b')
        (<int> if <cond> else <int>)
        sum(1 for x in <list> if x is not None)
        next((x for x in <ints> if x > <int>), <int>)
        functools.reduce(lambda a, b: a + b, <ints>, 0) % 9
        Data(<int>, [<int>]).total
        Color(<pos>).value
        Color.RED.value + <int>
        int(<tensor.>.sum().item()) % 5
        <obj>.count
        <tuple>.count(1)
        fib(<small>)
        (lambda x: x + <int>)(<int>)
        [<int>, <int>][<bit>]
        bool(<cond>) + <int>
        Box.made
        (w := <int>) + w
        collections.Counter(<str>)['a']
        Frozen(<int>, <int>).sum()
        dataclasses.replace(Frozen(<int>, 1), y=<int>).y
        sum(Countdown(<small>))
        memoised(<small>)
        len(<dict>.keys() & {'a', 'b'})
        Slotted(<int>).twice
        int(format(<int>, 'd'))
        (lambda *a, k=<int>, **kw: len(a) + k + len(kw))(*<ints>, **<dict>)
        operator.add(<int>, <int>)
        <int> << <small>
        <int> ** <small> % 11
        MODULE.COUNT
        Level(<small>) + <int>
        (Level.LOW | Level.HIGH).value
        gauge.amount
        gauge.level + <int>
        collections.Counter(<ints>).most_common(1)[0][1] if <list> else <int>
        sum(a or 0 for a, b in itertools.zip_longest(<ints>, (1, 2)))
        len(list(itertools.product(<ints>, 'ab')))
        len([*<dict>, *<list>])
        max(<dict>.items(), key=lambda p: str(p[0]), default=(0, 0)) is None
        sum(j for i, (j, k) in enumerate([(<int>, 1), (2, <int>)]))
        hash(Frozen(<int>, 1)) == hash(Frozen(<int>, 1))
        int('%d%d' % (<small>, <small>))
        total(*<ints>, *<ints>)
        [m := <int>, m + 1][-1]
    """,
    "ints": """
        [<int>, <int>]
        range(<small>)
        range(<int>, 4)
        [x * 2 for x in <ints>]
        [x for x in <ints> if x % 2]
        [i + j for i in <ints> for j in range(2)][:5]
        [x for x in (y + 1 for y in <ints>) if x > <int>]
        sorted(<ints>, reverse=<bool>)
        sorted(<ints>, key=lambda x: -x)
        sorted(<set>)
        [*<ints>, <int>][-5:]
        list(map(lambda x: x + <int>, <ints>))
        list(filter(None, <ints>))
        list(itertools.accumulate(<ints>))
        list(itertools.chain(<ints>, (1,)))[:5]
        list(itertools.islice(<ints>, <small>))
        list(itertools.takewhile(lambda x: x < 3, <ints>))
        list(reversed(<ints>))
        list(count_to(<small>))
        list(delegating(<ints>))
        [i for i, x in enumerate(<list>)]
        [len(k) for k in <dict>]
        [a * b for a, b in zip(<ints>, <ints>)]
        [m for x in <ints> if (m := x % 3)]
        [b - a for a, b in itertools.pairwise(<ints>)]
        [len(list(g)) for _, g in itertools.groupby(<ints>, key=lambda x: x % 2)]
        list(itertools.islice(itertools.cycle(<ints>), <small>))
        list(itertools.chain.from_iterable([<ints>, <ints>]))[:5]
        sorted(<ints>, key=functools.cmp_to_key(lambda a, b: b - a))
        [*itertools.dropwhile(lambda x: x > 1, <ints>)]
        [x for pair in zip(<ints>, <ints>) for x in pair][:5]
        list(itertools.repeat(<int>, <small>))
        list(map(operator.itemgetter(0), [(<int>, 1), (<int>, 2)]))
        [v for k, v in sorted({1: <int>, 0: <int>}.items())]
    """,
    "num": "<int>\n<int>\n<float>",
    "bit": "0\n1\n-1",
    "ab": "'a'\n'b'",
    "float": """
        <float> * 0.5
        <float> - <int>
        <int> / <pos>
        float(<int>)
        math.sqrt(abs(<float>))
        max(<float>, <float>)
        <float> ** 2 % 10
    """,
    "str": """
        (<str> + <str>)[:8]
        f'{<int.>}'
        f'{<int.>:03d}|{<str.>!r:>6}'
        f'{<float.>:.2f}{<int.>=}'
        f'{<tensor.>.shape}'
        <str>.upper()
        <str>.replace('a', 'b')
        <str>[::-1]
        '-'.join([str(x) for x in <ints>])[:8]
        ','.join(sorted(<dict>))
        '%s:%d' % (<str>, <int>)
        '{} {k!r}'.format(<int>, k=<str>)
        type(<any>).__name__
        str(<ints>)[:9]
        repr(<obj>)
        Color(<pos>).name
        (<str> if <cond> else <str>)
        <str>.split('b')[0]
        f'{<str.>:{'>'}{4}}'
        f'{<str.>:>{<pos.>}}'
        '{0}{1[0]}'.format(<int>, [<int>])
        '{a}'.format_map({'a': <int>})
        '%r' % (<tuple>,)[0:1]
        <str>.partition('b')[2]
        <str>.join('xy')[:8]
        f'{Vec(<int>)}'
        format(<float>, '.1f')
        str(<set>)[:1]
        <str>.strip('a').title().zfill(2)[:6]
        repr(Level(<small>))
    """,
    "cond": """
        <int> < <int>
        <int> < <int> <= <int>
        <int> == <int> != <int>
        <int> % 2
        not <cond>
        <cond> and <cond>
        <cond> or <cond>
        <key> in <dict>
        <int> in <set>
        <int> not in <ints>
        <list!> is <list!>
        <tensor!> is <tensor!>
        <any> is None
        isinstance(<val>, int)
        isinstance(<obj>, Sub)
        <tensor>.sum() > <int>
        <tensor.>.sum() > <int>
        <tensor.>.sum().item() > <int>
        <str> < <str>
        <str>.startswith('a')
        any(x > <int> for x in <ints>)
        all(x for x in <ints>)
        <list>
        <str>
        <obj>
        <obj> == <obj>
        <obj> < <obj>
        <int> in <obj>
        hasattr(<obj>, 'extra')
        <tensor.>.shape == (2, 3)
        (w := <int>) > 1 and w < 4
        Data(<int>, []) == Data(<int>, [])
        Frozen(<int>, 1) < Frozen(<int>, 2)
        isinstance(<any>, (int, str, Box))
        type(<obj>) is Box
        Color(<pos>) is Color.RED
        <dict> == <dict!>.copy()
        <int> <= <int> < <int> != <int>
        <set> <= <set>
        <set>.isdisjoint(<ints>)
        Vec(<int>)
        Vec(<int>) == Vec(<int>)
        (a := <any>) is not None and isinstance(a, int)
        issubclass(type(<obj>), Box)
        callable(<any>)
        <tensor.>.shape == <tensor.>.shape and <tensor.>.dtype is torch.float32
        MODULE.COUNT == COUNT
        'a' < <str> <= 'b'
        torch.equal(<tensor.>, <tensor.>)
    """,
    "list": """
        list(<list>)
        <list>[:3]
        <list>[::-1]
        (<list> + [<val>])[-4:]
        [<val>, <val>]
        [*<list>, <val>][-4:]
        list(<deque>)
        list(<tuple>)
        list(<dict>.values())
        [x for x in <list> if isinstance(x, int)]
        [x + 1 for x in <list>]
        copy.copy(<list>)
        [<int>] * 2
        list(<obj>)
        <int> * <list>[:1]
        [*(<int>, *<tuple>)][:4]
        [[<val>], [<int>]][<bit>]
        sorted(<list>, key=str)[:3] if <bool> else [<val>]
        [(lambda: v)() for v in <list>[:3]]
        list(zip(<list>, <ints>))[:2]
    """,
    "dict": """
        {<key>: <val>, **<dict>}
        dict(<dict>)
        {k: v for k, v in <dict>.items()}
        {k: v for k, v in sorted(<dict>.items(), key=lambda p: p[0]) if k != <key>}
        dict(zip('ab', <list>))
        <dict> | {<key>: <val>}
        dict(a=<val>)
        dict.fromkeys('ab', <val>)
        collections.OrderedDict(<dict>)
        collections.defaultdict(int, <dict>)
        <dict>.copy()
        {**<dict>, **<dict>}
        <dict> | collections.OrderedDict(a=<val>)
        dict(sorted(<dict>.items()))
        {k: (k, v) for k, v in zip('ab', <list>)}
        collections.Counter('abb')
        dict(collections.Counter(a=<int>) + collections.Counter(a=<int>, b=1))
    """,
    "set": """
        {<int>, <int>}
        <set> | <set>
        <set> & <set>
        <set> - {<int>}
        <set> ^ <set>
        {x % 3 for x in <ints>}
        set(<ints>)
        set(frozenset(<ints>))
        <set>.union(<ints>)
    """,
    "deque": """
        collections.deque(<list>, 4)
        collections.deque(<ints>, maxlen=3)
    """,
    "tuple": """
        (<val>, <val>)
        (<int>, *<list>)[:4]
        tuple(<list>)
        tuple(x for x in <ints>)
        Pair(<val>, <int>)
        Pair(<val>, b=<int>)._replace(b=<int>)
        (<tuple> + (<val>,))[-3:]
        divmod(<int>, 3)
    """,
    "obj": """
        Box(<val>)
        Sub(<val>, <int>)
        copy.copy(<obj>)
        <obj>.same()
        Box.make(<val>)
        Data(<int>, [<val>]).box()
    """,
    "fn": """
        lambda a: a + <tensor.>
        lambda a, k=<int>: a * k
        functools.partial(torch.add, <tensor>)
        functools.partial(helper, n=<int>)
        scaled(<num>)
        compose(<fn>, <fn>)
        <obj>.apply
        torch.neg
        logged(double)
    """,
    "val": "<int>\n<tensor>\n<tensor.>\n<int.>\n<float>",
    "any": "<val>\n<list>\n<tuple>\n<dict>\n<str>\n<obj>\nNone\n<set>\n<cond>",
    "exc": """
        ValueError(<int>)
        KeyError(<str>)
        Own(<int>, <str>)
        IndexError
    """,
}
"""Expressions by kind, one a line."""
