"""Exception groups and `except*`: splitting, raising again, breaks inside, groups of a class of one's own."""

# ruff: noqa: B030, B904, F841
# (what is raised and named is what is tested)

from differential import loud, program


def show(error):
    if isinstance(error, BaseExceptionGroup):
        inner = [show(each) for each in error.exceptions]
        return type(error).__name__, error.message, inner, str(error), getattr(error, "__notes__", None)
    return type(error).__name__, error.args


@program()
def two(x):
    log = []
    try:
        y = x + 1
        raise ExceptionGroup("g", [ValueError(1), KeyError("k")])
    except* ValueError as e:
        log.append(show(e))
        y = y * 2
    except* KeyError as e:
        log.append(show(e))
        y = y * 3
    return y, log


@program()
def naked(x):
    try:
        raise ValueError(x.shape[0])
    except* ValueError as e:
        y = x + e.exceptions[0].args[0]
        g = e
    except* TypeError:
        y = x
    return y, show(g), g


@program()
def rest(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("n", [KeyError("k"), TypeError(2)]), OSError()])
        except* ValueError:
            y = x + 1
        except* TypeError:
            y = y * 2
    except ExceptionGroup as e:
        return y, show(e), e


@program()
def leaves_frame(x):
    y = x + 1
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError("k")])
    except* ValueError:
        y = x * 2


@program()
def inner_raise(x):
    y = x
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError("k"), OSError("o")])
        except* ValueError as e:
            y = y + 1
            raise TypeError("new")
        except* KeyError:
            raise
        except* OSError as e:
            raise RuntimeError("r") from e
    except ExceptionGroup as e:
        return y, show(e), e, [show(i.__context__) for i in e.exceptions if i.__context__]


@program()
def reraise(x):
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError("k")])
        except* ValueError as e:
            y = x + 1
            raise
        except* KeyError:
            raise
    except ExceptionGroup as e:
        return y, show(e), e


@program()
def nothing(x):
    try:
        y = x + 1
    except* ValueError:
        y = x
    else:
        y = y * 2
    finally:
        y = y + 5
    return y


@program()
def methods(x):
    g = ExceptionGroup("g", [ValueError(1), ExceptionGroup("n", [KeyError("k"), ValueError(2)])])
    g.add_note("hello")
    m, r = g.split(ValueError)
    s = g.subgroup((KeyError, OSError))
    n = g.subgroup(TypeError)
    p = g.split(lambda e: not isinstance(e, ExceptionGroup) and e.args == (2,))
    d = g.derive([OSError(1)])
    return (
        x + 1,
        show(m),
        show(r),
        show(s),
        n,
        show(p[0]),
        show(p[1]),
        show(d),
        g,
        m,
        repr(g),
        m.__notes__ is g.__notes__,
    )


class Mine(ExceptionGroup):
    def __new__(cls, msg, excs, code=3):
        self = super().__new__(cls, msg, excs)
        self.code = code
        return self

    def derive(self, excs):
        return Mine(self.message, excs, self.code)


@program()
def mine(x):
    try:
        try:
            raise Mine("g", [ValueError(1), KeyError("k")], 9)
        except* ValueError as e:
            y = x + e.code
            s = e
    except Mine as e:
        return y, show(e), e.code, s, e, e.args


@program()
def broken(x):
    log = []
    try:
        y = x + 1
        raise ExceptionGroup("g", [ValueError(1), KeyError("k"), ExceptionGroup("i", [KeyError("z"), OSError()])])
    except* ValueError as e:
        loud("value", show(e))
        y = y * 2
    except* KeyError as e:
        loud("key", show(e))
        y = y * 3
    except* OSError as e:
        loud("os", show(e))
        y = y * 5
    return y + 1


@program()
def broken_before(x):
    y = x + 1
    try:
        loud("a")
        y = y + 2
        raise ExceptionGroup("g", [ValueError(1), KeyError("k")])
    except* ValueError as e:
        y = y * 2
        loud("in handler")
        y = y - 1
    except* KeyError as e:
        y = y * 3
    return y + 1


@program()
def broken_reraise(x):
    y = x + 1
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError("k")])
        except* ValueError as e:
            loud("in handler")
            y = y - 1
            raise
    except ExceptionGroup as e:
        loud(show(e))
        return y + 1, e


def attempts(log, *makers):
    for make in makers:
        try:
            make()
        except Exception as error:
            log.append((type(error).__name__, str(error)))


@program()
def errors(x):
    log = []
    attempts(
        log,
        lambda: ExceptionGroup("m"),
        lambda: ExceptionGroup(1, []),
        lambda: ExceptionGroup("m", 5),
        lambda: ExceptionGroup("m", []),
        lambda: ExceptionGroup("m", [1]),
        lambda: ExceptionGroup("m", [KeyboardInterrupt()]),
        lambda: ExceptionGroup("m", {ValueError()}),
        lambda: ExceptionGroup("m", [ValueError()], k=1),
        lambda: ExceptionGroup("m", [ValueError]),
        lambda: ExceptionGroup("m", [ValueError()], 3),
        lambda: ExceptionGroup("m", [ValueError()]).split(5),
        lambda: ExceptionGroup("m", [ValueError()]).split((1,)),
        lambda: ExceptionGroup("m", [ValueError()]).split([ValueError]),
        lambda: ValueError().add_note(1),
    )
    try:
        try:
            raise ExceptionGroup("m", [ValueError()])
        except* ExceptionGroup:
            pass
    except TypeError as error:
        log.append(str(error))
    try:
        try:
            raise ExceptionGroup("m", [ValueError()])
        except* 5:
            pass
    except TypeError as error:
        log.append(str(error))
    made = (BaseExceptionGroup("x", [ValueError()]), BaseExceptionGroup("x", [KeyboardInterrupt()]))
    return x + 1, log, [type(each).__name__ for each in made]


@program()
def loops(x):
    r = []
    for i in range(3):
        try:
            if i == 1:
                raise ExceptionGroup("g", [ValueError(i), TypeError(i)])
            if i == 2:
                raise KeyError(i)
        except* (ValueError, TypeError) as e:
            r.append(len(e.exceptions))
            x = x + 1
        except* KeyError as e:
            r.append("k")
            x = x * 2
        finally:
            r.append("f")
    return x, r


@program()
def from_args(x):
    try:
        return x + 1, OUT
    finally:
        pass


OUT = ExceptionGroup("out", [ValueError(1), KeyError(2)])


@program()
def outside(x):
    try:
        try:
            raise OUT
        except* ValueError as e:
            y = x + 1
            s = show(e)
    except ExceptionGroup as e:
        return y, s, show(e)


@program()
def outside_all(x):
    try:
        raise OUT
    except* (ValueError, KeyError) as e:
        y = x + 1
        s = show(e)
    return y, s


def deeper(x, n):
    if n == 0:
        raise ValueError(x.sum().shape)
    try:
        y = deeper(x, n - 1)
    except* KeyError:
        y = x
    return y


@program()
def deep(x):
    y = x + 1
    try:
        return deeper(x, 2)
    except* ValueError as e:
        y = y * 2
        g = e
    return y, show(g), g
