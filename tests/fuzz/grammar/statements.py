"""Statements of one line, those among them that stand only in some blocks."""

from __future__ import annotations

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
