"""What generated programs are made of: templates of expressions, statements and blocks, by kind.

In a template `<kind>` stands for an expression of that kind, `<kind.>` for a
name or literal, `<kind!>` for something that can be assigned to, and
`<block ...>`, alone on its line, for statements (see `write`). A template that
stands twice is taken twice as often.
"""

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

STATEMENTS = """
    <tensor!> = <tensor>
    <tensor!> = <tensor>
    <tensor!> = <tensor>
    <tensor!> += <num>
    <tensor!> *= <tensor>
    <tensor!> -= <tensor.>
    <tensor.>.add_(<num>)
    <tensor.>.mul_(<tensor.>)
    <tensor.>.relu_()
    <tensor!>[0] = <num>
    <tensor!>[0] += <tensor.>[1]
    <tensor!>[:, 1:] = <num>
    <tensor.>.view(6)[<small>] = <num>
    <tensor.>[1].add_(<num>)
    <tensor.>.t().mul_(<num>)
    <tensor.>.copy_(<tensor>)
    <tensor!>[<tensor.> > 0] = <num>
    <tensor!>, <tensor!> = <tensor>, <tensor>
    <tensor!> = <tensor!> = <tensor>
    <int!> = <int>
    <int!> = <int>
    <int!> += <int>
    <int!> *= <small>
    <int!>, *<list!> = <ints> or (1,)
    <int!>, <int!> = <int>, <int>
    <float!> = <float>
    <float!> += <int>
    <str!> = <str>
    <str!> = (<str!> + <str>)[:8]
    <list!> = <list>
    <list!> = <list!>
    <list!>.append(<val>)
    <list!>.append(<val>)
    <list!>.insert(0, <val>)
    <list!>.extend(<ints>)
    <list!>[:1] = <list>
    <list!>[1] = <val>
    <list!>[-1:] = []
    <list!>.reverse()
    <list!> += [<val>]
    <list!>.clear()
    del <list!>[0]
    if <list!>: <list!>.pop()
    if <list!>: <list!>[<small> % (len(<list!>) or 1)] = <val>
    <list!> = [x for x in <list> if x is not <val>]
    <list!>.sort(key=lambda x: isinstance(x, int))
    <dict!> = <dict>
    <dict!>[<key>] = <val>
    <dict!>[<key>] = <val>
    <dict!>.pop(<key>, None)
    <dict!>.update(a=<val>)
    <dict!>.setdefault(<key>, <val>)
    <dict!> |= <dict>
    if <key> in <dict!>: del <dict!>['a']
    <int!> = len(<dict!>)
    <val!> = <dict!>.get(<key>, <val>)
    <dict!>.setdefault('l', []).append(<int>)
    <set!> = <set>
    <set!>.add(<int>)
    <set!>.discard(<int>)
    <set!> |= <set>
    <set!>.remove(<int>)
    <deque!>.append(<val>)
    <deque!>.appendleft(<val>)
    <deque!>.rotate(<small>)
    if <deque!>: <deque!>.popleft()
    <tuple!> = <tuple>
    <val!>, *_ = <tuple> or (1,)
    <obj!> = <obj>
    <obj!> = <obj!>
    <obj!>.value = <val>
    <obj!>.value += <num>
    <obj!>.count += <int>
    <obj!>.extra = <val>
    <obj!>.doubled = <val>
    <obj!>.items.append(<val>)
    <obj!>[<small>] = <val>
    <obj!> += <val>
    <obj!>.__dict__['extra'] = <int>
    setattr(<obj!>, 'extra', <val>)
    <val!> = getattr(<obj!>, 'extra', <val>)
    if hasattr(<obj!>, 'extra'): del <obj!>.extra
    <val!> = <obj!>.put(<val>)
    <val!> = <obj!>.missing
    <obj!>.value, <val!> = <val>, <obj!>.value
    Box.made += <small>
    Sub.level = <int>
    layer.count += <small>
    layer.last = <tensor>
    layer.weight.data.add_(<num>)
    <fn!> = <fn>
    <val!> = <val>
    <val!> = <val>
    LOG.append(<val>)
    LOG.append(<str>)
    TABLE[<key>] = <val>
    COUNTS[<key>] += <int>
    bump(<int>)
    remember(<val>, <list!>)
    print(<int>)
    print(<str>, <int>)
    print(len(<list>), sorted(<dict>))
    print('<tensor!>', <tensor.>.shape, end=';')
    <val!> = noisy(<val>)
    aotdyn.graph_break()
    <float!> = <tensor.>.sum().item()
    <list!> = <tensor>.tolist()
    assert <cond>, <str>
    if <cond>: raise <exc>
    <tensor!>[0], <tensor!>[1] = <tensor>[1].clone(), <tensor>[0].clone()
    row = <tensor!>[0]; row += <num>
    torch.mul(<tensor>, <num>, out=<tensor!>)
    print(*<ints>, sep='-')
    <int!> = vars(<obj!>)['count']
    Frozen(<int>, 1).x = <int>
    <obj!>.cached
    <val!> = <obj!>.cached
    <int!>, (<int!>, <val!>) = <int>, (<int>, <val>)
    delattr(<obj!>, 'items')
    tick = counter(); <int!> = tick() + tick()
    COUNTS.clear()
    <list!> = sorted(((k, i) for i, k in enumerate(<dict>)), key=operator.itemgetter(0))
    del <val!>
    <val!> = [<val>, None][<bit>]
    <val!> += <num>
    <val!> *= <val>
    <val!> -= <val>
    <tuple!> += (<val>,)
    <set!> -= <set>
    <set!> ^= {<int>}
    <int!> |= <int>
    <int!> **= <small>
    <int!> %= <pos>
    <list!> *= <small>
    <list!>[::2] = <list!>[::2]
    <list!>[-1] += <num>
    <dict!>['a'] += <num>
    <dict!>['l'][0] += <num>
    del <list!>[:1], <list!>[-1:]
    <list!>[0], <list!>[-1] = <list!>[-1], <list!>[0]
    first, *<list!>, last = [*<ints>, 1, 2]
    (<int!>, <val!>), <int!> = (<int>, <val>), <int>
    ordered = collections.OrderedDict(<dict>); ordered.move_to_end(<key>)
    ordered = collections.OrderedDict(<dict>, a=<val>); ordered.move_to_end('a', last=False); <dict!> = ordered
    <val!> = <dict!>.popitem()
    <deque!>.extendleft(<ints>)
    <deque!>.extend(<list>)
    <deque!> += <ints>
    <val!> = <deque!>.pop()
    COUNTS.update(a=<int>)
    MODULE.COUNT = <int>
    MODULE.TABLE['m'] = <val>
    gauge.amount = <int>
    gauge.level += <int>
    gauge.amount -= <small>
    <obj!>.first = <obj!>.second = <val>
    del <obj!>.count
    <obj!>.__dict__.update(extra=<int>)
    vars(<obj!>)['late'] = <val>; del <obj!>.late
    <val!> = <obj!>.__dict__.pop('extra', <val>)
    Box.shared = <val>
    if hasattr(Box, 'shared'): del Box.shared
    written(<tensor!>)
    written(<tensor!>[0])
    spill(<tensor!>, <tensor!>.t())
    <tensor!>.data = <tensor>
    <tensor!> = <tensor!>.view(6).view(2, 3); <tensor!>[0, 0] = <num>
    <tensor.>.clamp_(min=<num>)
    <tensor.>.sub_(<tensor.>.flip(0))
    <tensor.>.index_fill_(1, torch.tensor([<small>]), <num>)
    <tensor.>.unsqueeze(0).squeeze(0).zero_()
    torch.add(<tensor>, <tensor>, out=<tensor!>[:1].expand(2, 3))
    <tensor!> -= <tensor!>.view(3, 2).t()
    print(f'{<int>}', *<list>[:0], <str>, sep='', end='.')
    print(<tensor.>.sum().item() > <int>)
    print(str(<tuple>)[:1], end='')
    <int!> = <tensor.>.argmax().item()
    <val!> = next(steps(<small>))
    raise_if(<cond>)
    <val!> = caught(lambda: <list!>[<small>])
    <val!> = caught(lambda: <dict!>[<key>] + 1)
    <val!> = caught(lambda: raise_if(<cond>))
    it = iter(<list>)
    <val!> = next(it, <val>)
    ticks = count_to(<small>)
    <val!> = next(ticks, <val>)
    <list!> = [*ticks][:4]
    <val!> = echo(<ints>)
    pass
"""
"""Statements of one line."""

IN_LOOP = """
    if <cond>: break
    if <cond>: continue
"""
IN_HANDLER = """
    if <cond>: raise
    raise Own(<int>, 'from') from error
    raise KeyError(<str>)
    LOG.append(repr(error))
    LOG.append(type(error.__context__).__name__)
    LOG.append(error.args)
    kept = error
    raise IndexError(<int>) from None
    error.add_note(<str>); LOG.append(error.__notes__)
    raise error.with_traceback(None)
    LOG.append(error.__traceback__ is None)
"""
IN_FUNCTION = """
    if <cond>: return <tensor>
    if <cond>: return <any>
"""

IN_MAIN = """
    if <cond>: return t0 + <tensor>, t1
"""
"""What stands now and then in a loop, a handler, a nested function, the program itself."""

BLOCKS = """
    if <cond>:
        <block>
    else:
        <block>
----
    if <cond>:
        <block>
    elif <cond>:
        <block>
----
    for i in range(<small>):
        <tensor!> = <tensor> + i
        <block loop int=i>
----
    for i, v in enumerate(<list>[:3]):
        <block loop int=i val=v>
    else:
        <block>
----
    for v in <ints>:
        <block loop int=v>
----
    w<n> = 0
    while w<n> < <small>:
        w<n> += 1
        c = w<n>
        <block loop int=c>
    else:
        <block>
----
    for v, u in zip(<list>[:3], (5, 6, 7)):
        <block loop val=v int=u>
----
    for k, v in list(<dict>.items()):
        <block loop key=k val=v>
----
    for k in <dict!>:
        <block loop key=k>
----
    for v in <deque>:
        <block loop val=v>
----
    for t in (<tensor>, <tensor>):
        <block loop tensor=t>
----
    for v in delegating(<ints>):
        <block loop int=v>
----
    for v in <obj!>:
        <block loop>
----
    try:
        <block>
        if <cond>: raise <exc>
    except <caught> as error:
        LOG.append(type(error).__name__)
        <block handler>
    else:
        <block>
----
    try:
        <block>
        raise <exc>
    except <caught>:
        <block>
----
    try:
        <block>
    finally:
        <block>
----
    try:
        <block>
        <tensor!> = <list!>[<small>] + <tensor>
    except (IndexError, TypeError) as error:
        <block handler>
    finally:
        <block>
----
    try:
        try:
            <block>
            raise <exc>
        finally:
            <block>
    except <caught> as error:
        <block handler>
----
    try:
        try:
            raise <exc>
        except <caught> as error:
            raise Own(<int>, 'chained') from error
    except Exception as error:
        LOG.append((repr(error.__cause__), repr(error.__context__)))
        <block handler>
----
    with Manager(<bool>):
        <block>
----
    with Manager(<bool>) as m, Manager(False):
        <block>
        if <cond>: raise <exc>
----
    with managed(<val>) as v:
        <block val=v>
----
    with contextlib.suppress(<caught>):
        <block>
----
    with torch.no_grad():
        <block>
----
    with Swap(<obj!>, <val>) as s:
        <block obj=s>
----
    for a, (b, c) in zip(<ints>, [(<val>, <int>)] * 2):
        <block loop int=a val=b>
----
    for c in Countdown(<small>):
        <block loop int=c>
----
    for v in <ints>:
        try:
            <block loop int=v>
            if <cond>: continue
        finally:
            <block>
----
    while True:
        try:
            <block>
            break
        except <caught>:
            <block>
            break
        finally:
            LOG.append('finally')
----
    for i in range(<small>):
        with Manager(<bool>):
            <block loop int=i>
            if <cond>: break
            print(i)
----
    for t in <tensor>:
        <tensor!> = <tensor> + t
        <block loop>
----
    for x, in zip(<ints>):
        for y in <ints>:
            <block loop int=y>
            if x == y: break
        else:
            <block>
            continue
        break
----
    with contextlib.ExitStack() as stack:
        for v in <ints>:
            stack.enter_context(Manager(<bool>))
        <block>
        if <cond>: raise <exc>
----
    with contextlib.nullcontext(<val>) as v, torch.inference_mode(False):
        <block val=v>
----
    with torch.set_grad_enabled(<bool>), managed(<val>):
        <block>
        if <cond>: raise KeyError(<int>)
----
    try:
        try:
            raise ExceptionGroup('g', [ValueError(<int>), ExceptionGroup('h', [KeyError('k'), TypeError(<int>)])])
        except* (ValueError, TypeError) as group:
            LOG.append(repr(group))
            <block>
    except* KeyError as group:
        LOG.append((len(group.exceptions), group.message))
----
    match <list>:
        case [int() as n, *_] if n > <small>:
            <block int=n>
        case [a, b] | [a, b, _]:
            <block val=a>
        case []:
            <block>
----
    match Frozen(<int>, <int>):
        case Frozen(0, y) | Frozen(y, 0):
            <block int=y>
        case Frozen(x=1 | 2 as z):
            <block int=z>
        case Frozen(x, y) if x < y:
            <block int=x>
----
    match <dict>:
        case {'a': int(n), **rest} if rest:
            <block int=n dict=rest>
        case {'b': v}:
            <block val=v>
        case {}:
            <block>
----
    class Local<n>:
        size = <int>
        names = [str(i) for i in <ints>]
        if <cond>:
            kind = <val>
        else:
            kind = <int>
        @property
        def twice(self):
            <block def>
            return self.size * 2
        @classmethod
        def of(cls, size):
            made = cls()
            made.size = size
            return made
        def __add__(self, other):
            return NotImplemented if <cond> else other
        __radd__ = __add__
    <val!> = Local<n>.of(<int>).twice
    <val!> = <val> + Local<n>()
----
    def f<n>(a):
        while True:
            try:
                a = yield a
                <block loop>
            except ValueError as error:
                a = error.args[0]
            except KeyError:
                return
    g<n> = f<n>(<val>)
    <val!> = next(g<n>)
    <val!> = g<n>.send(<val>)
    <val!> = g<n>.throw(ValueError(<int>))
    <val!> = caught(lambda: g<n>.throw(<exc>))
----
    def f<n>(a):
        <nonlocal>
        got = yield from count_to(<small>)
        <block def>
        yield a
    <list!> = [v for v in f<n>(<val>)]
----
    def f<n>(a, /, b=<int>, *c, d=<num>, **e):
        <nonlocal>
        a.add_(d)
        <block def tensor=a int=b tuple=c dict=e>
        return a
    <tensor!> = f<n>(<tensor!>, *<ints>, z=<int>)
----
    def f<n>(a, b):
        a[0] = <num>
        <block def tensor=a>
        b.mul_(2)
        return a + b
    <tensor!> = f<n>(<tensor!>, <tensor!>)
----
    def f<n>(a):
        for v in <ints>:
            if <cond>: return a
            print(v, end=' ')
            <block def loop int=v tensor=a>
            a = a + v
        return a * 2
    <tensor!> = f<n>(<tensor>)
----
    def f<n>(a):
        try:
            <block def tensor=a>
            return a
        except <caught>:
            return a + 1
        finally:
            LOG.append('left')
            <block>
    <tensor!> = f<n>(<tensor>)
----
    class Local<n>(Box):
        bonus = <int>
        def apply(self, a):
            return super().apply(a) + self.bonus
    <tensor!> = Local<n>(<val>).apply(<tensor>)
----
    try:
        <block>
        raise ExceptionGroup('g', [ValueError(<int>), KeyError('k')])
    except* ValueError as group:
        LOG.append(len(group.exceptions))
    except* KeyError:
        <block>
----
    with contextlib.ExitStack() as stack:
        stack.callback(LOG.append, <int>)
        <block>
----
    match <any>:
        case int(x) if x > <small>:
            <block int=x>
        case [first, *rest]:
            <block val=first list=rest>
        case {'a': found, **others}:
            <block val=found dict=others>
        case Box(value=held):
            <block val=held>
        case str() | None:
            <block>
        case _:
            <block>
----
    match <tuple>:
        case Pair(a, b=2 | 3 as b):
            <block int=b>
        case (x, y):
            <block val=x>
        case ():
            <block>
----
    match <int>:
        case 0 | 1:
            <block>
        case 2:
            <block>
----
    def f<n>(a, b=<int>, *c, d=<num>):
        <nonlocal>
        <block def tensor=a int=b>
        return <tensor>
    <tensor!> = f<n>(<tensor>)
----
    def f<n>(a):
        inner = <int>
        def g(b):
            nonlocal inner
            inner += b
            return a * inner
        <block def int=inner>
        return g(<int>) + g(<int>)
    <tensor!> = f<n>(<tensor>)
----
    def f<n>(a):
        <nonlocal>
        for v in a:
            <block def loop int=v>
            got = yield v + <int>
            if got: LOG.append(got)
        return <int>
    <list!> = list(f<n>(<ints>))
----
    def f<n>(a):
        <nonlocal>
        try:
            yield <val>
            <block>
            yield a
        finally:
            LOG.append('closed')
    g<n> = f<n>(<val>)
    <val!> = next(g<n>)
    <block>
    g<n>.close()
----
    def f<n>():
        total = <int>
        while True:
            got = yield total
            if got is None: break
            total += got
    g<n> = f<n>()
    <int!> = next(g<n>)
    for v in <ints>:
        <int!> = g<n>.send(v)
----
    @logged
    def f<n>(a):
        <nonlocal>
        <block def tensor=a>
        return a
    <tensor!> = f<n>(<tensor>)
----
    fs = [lambda a, k=k: a + k for k in <ints>]
    <tensor!> = sum([f(<tensor.>) for f in fs], <tensor>)
----
    fs = []
    for k in <ints>:
        fs.append(lambda a: a * k)
    <tensor!> = <tensor> if not fs else fs[0](<tensor>)
"""
"""Statements with blocks, a line of dashes between them."""
