"""Statements with blocks in them."""

from __future__ import annotations

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
