"""Stubs: the dispatch protocol, and that nothing else changes."""

from __future__ import annotations

import builtins
import inspect
import marshal
import os
import subprocess
import sys
import textwrap
import traceback
from types import CodeType, FunctionType, SimpleNamespace

import pytest

from aotdyn.rewrite import compact, digest, names, originals, stubs, switchboard
from aotdyn.rewrite.question import question
from tests.rewrite.fake_runtime import installed, outcome
from tests.rewrite.samples import CASES


def answering(function, answer):
    """A stub of `function` whose dispatcher is `answer`."""
    code = function.__code__
    name = stubs.dispatcher_name(code.co_qualname, digest.digest(code))
    stub = FunctionType(
        stubs.stub(code, name), function.__globals__, code.co_name, function.__defaults__, function.__closure__
    )
    stub.__kwdefaults__ = function.__kwdefaults__
    setattr(builtins, name, answer)
    return stub


def every_parameter(a, /, b, *args, c=3, **kw):
    def inner():
        return a, c

    return inner(), b, args, kw


@pytest.mark.parametrize("seated", [False, True])
def test_a_repair_that_fails_leaves_no_exception_handled(seated):
    """As at the end of the stack, where the repair of a RecursionError's traceback finds no room either."""

    def failing(*_):
        raise ValueError("the dispatcher")

    def no_room(exc):
        raise RecursionError

    with installed():
        setattr(builtins, names.FIX, no_room)
        stub = answering(every_parameter, failing)
        if seated:
            setattr(builtins, "__aotdyn_s_repair", SimpleNamespace(ask=[failing]))
            stub.__code__ = stubs.stub(every_parameter.__code__, switchboard.Seat("__aotdyn_s_repair", 0))
        with pytest.raises(RecursionError) as caught:
            stub(1, 2)
        assert sys.exc_info() == (None, None, None)
        assert isinstance(caught.value.__context__, ValueError)
        try:
            {}["key"]
        except KeyError:
            with pytest.raises(RecursionError):
                stub(1, 2)
            assert sys.exc_info()[0] is KeyError


def test_dispatcher_is_handed_arguments_and_cells():
    with installed():
        given = []
        stub = answering(every_parameter, lambda *values: given.append(values))
        assert stub(1, 2, 3, c=4, d=5) == every_parameter(1, 2, 3, c=4, d=5)
    *values, a, c = given[0]
    assert values == [1, 2, 4, (3,), {"d": 5}]
    assert (a.cell_contents, c.cell_contents) == (1, 4)
    spec = stubs.spec_of(every_parameter.__code__, "m")
    assert spec.params == ("a", "b", "c", "args", "kw")
    assert spec.cells == ("a", "c")
    assert spec.arity == 7


def test_value_is_returned_and_none_too():
    with installed():
        assert answering(every_parameter, lambda *_: (42, None))(1, 2) == 42
        assert answering(every_parameter, lambda *_: (None, None))(1, 2) is None


def test_state_is_handed_over():
    class K:
        def made(self, state, k):
            return "resumed", state

    with installed():
        assert answering(every_parameter, lambda *_: ((1, 2), K()))(1, 2) == ("resumed", (1, 2))


def fails(x):
    return x


@pytest.mark.parametrize("where", ["dispatcher", "continuation"])
def test_our_frames_dont_show(where):
    namespace = {}
    exec(compile("def user(*_): raise ValueError(1)", "user.py", "exec"), namespace)

    class K:
        made = staticmethod(namespace["user"])

    with installed():
        stub = answering(fails, namespace["user"] if where == "dispatcher" else lambda *_: ((), K()))
        with pytest.raises(ValueError, match="1") as caught:
            stub(1)
        assert [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)][1:] == ["user"]
        assert sys.exception() is None


def test_missing_dispatcher_runs_the_body():
    with installed():
        stub = answering(every_parameter, None)
    assert stub(1, 2) == every_parameter(1, 2)
    assert outcome(lambda: stub(1, 2)) == outcome(lambda: every_parameter(1, 2))


@pytest.mark.parametrize(("function", "args", "keywords"), CASES, ids=[f.__name__ for f, _, _ in CASES])
def test_body_keeps_everything(function, args, keywords):
    code, stub = function.__code__, answering(function, lambda *_: None).__code__
    delattr(builtins, originals.dispatcher_of(stub))
    counts = ("argcount", "posonlyargcount", "kwonlyargcount", "flags", "firstlineno")
    for name in (*counts, "varnames", "cellvars", "freevars", "consts"):
        assert getattr(stub, f"co_{name}") == getattr(code, f"co_{name}")
    assert stub.co_names[: len(code.co_names)] == code.co_names
    size = len(code.co_code) - 2 * stubs.header_units(code)
    assert stub.co_code[-size:] == code.co_code[-size:]
    assert list(stub.co_positions())[-size // 2 :] == list(code.co_positions())[-size // 2 :]
    assert marshal.loads(marshal.dumps(stub)) == stub


MODULE = textwrap.dedent(
    """
    import functools

    def decorate(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs)
        return wrapper

    class A:
        attribute = [x for x in range(3)]

        @decorate
        def method(self, x=1):
            "Documented."
            return super().__hash__() and [x, *(lambda: self.attribute)()]

        @property
        def prop(self):
            return self.method(5)

    if A:
        def twin(x): return +x
    else:
        def twin(x): return +x

    if not A:
        def twin(x): return +x

    def numbers(n):
        yield from range(n)

    async def later(): pass

    def peeks(): return locals()

    RESULT = A().method(), A().prop, twin(3), list(numbers(2)), peeks()
    """
)


def test_tree_of_a_module():
    plain = compile(MODULE, "module.py", "exec")
    code, made = stubs.stub_tree(plain, "pkg.module")
    assert [info.qualname for info in made] == [
        *("decorate.<locals>.wrapper", "decorate", "A.method", "A.prop", "twin", "twin", "twin")
    ]
    assert len({info.dispatcher for info in made}) == len(made)
    assert made[-1].digest == made[-2].digest[:20] + ".3"
    assert "pkg_module" in made[0].dispatcher
    again = stubs.stub_tree(compile(MODULE, "elsewhere.py", "exec"), "pkg.module")[1]
    assert [info.dispatcher for info in again] == [info.dispatcher for info in made]
    spaces = [{}, {}]
    for unit, space in zip((plain, code), spaces, strict=True):
        exec(unit, space)
    assert spaces[0]["RESULT"] == spaces[1]["RESULT"]
    assert spaces[1]["A"].method.__doc__ == "Documented."
    assert str(inspect.signature(spaces[1]["A"].method)) == "(self, x=1)"


def test_originals():
    code, made = stubs.stub_tree(compile(MODULE, "module.py", "exec"), "m")
    space = {}
    exec(code, space)
    stub = space["decorate"].__code__
    info = next(info for info in made if info.qualname == "decorate")
    assert originals.dispatcher_of(stub) == info.dispatcher
    calls = []
    originals.register(info.dispatcher, lambda: calls.append(1) or info.code)
    assert originals.original(stub) is originals.original(stub) is info.code
    assert calls == [1]
    assert originals.original(info.code) is info.code
    assert digest.digest(stub) == digest.digest(info.code) == info.digest
    with pytest.raises(KeyError):
        originals.original(next(c for c in info.code.co_consts if isinstance(c, CodeType)))


def test_spec_of_a_stub_knows_twins_apart():
    code, made = stubs.stub_tree(compile(MODULE, "module.py", "exec"), "m")
    found = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == "twin"]
    assert [stubs.spec_of(c, "m").digest for c in found] == [info.digest for info in made if info.qualname == "twin"]


def all_code(code):
    """A code object and all in it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from all_code(value)


MANY = "\n".join(
    f"def f{i}(x, y={i}):\n    '{i}'\n    try: return [x + y, {i}]\n    except E: g{i}()" for i in range(300)
)


@pytest.mark.parametrize("source", [MODULE, MANY])
def test_stubs_of_a_switchboard_hold_their_originals(source):
    board = switchboard.board_name("m", f"{len(source)}")
    code, made = stubs.stub_tree(compile(source, "module.py", "exec"), "m", board)
    asked = []
    orders = {number: info.order for number, info in enumerate(made) if info.order}
    with installed():
        assert switchboard.put_in(board, "m", len(made), orders, lambda *_: asked.append(1))
        assert not switchboard.put_in(board, "m", len(made), orders, None)
        found = [c for c in all_code(marshal.loads(compact.dumps(code))) if switchboard.seat_in(c)]
        assert len(found) == len(made)
        for each in found:
            info = made[switchboard.seat_in(each).number]
            assert originals.dispatcher_of(each) == info.dispatcher
            original = originals.original(each)
            for name in ("code", "consts", "names", "linetable", "exceptiontable", "varnames", "freevars", "flags"):
                assert getattr(original, f"co_{name}") == getattr(info.code, f"co_{name}")
        space = {}
        exec(code, space)
        stub = space["twin" if "twin" in space else "f280"]
        asked.clear()
        stub(3)
        assert asked == [1]
        assert switchboard.install(originals.dispatcher_of(stub.__code__), lambda *values: (values, None))
        assert stub(3)[0] == 3


def test_stubs_from_templates_are_those_put_together_one_by_one():
    """All names of a function but those of the protocol itself, and as many as fit in a byte."""
    source = inspect.getsource(sys.modules[__name__]) + "\n".join(
        (
            "def of_ours(ask): return ask.ask(__aotdyn_fix)",
            f"def many(x): return {' + '.join(f'x.a{i}' for i in range(150))}",
        )
    )
    found = [c for c in all_code(compile(source, "module.py", "exec")) if not stubs.eligible(c)]
    assert len(found) > 20
    by_itself = set()
    for code in found:
        seat = switchboard.Seat("__aotdyn_s_m", 300)
        made, wanted = stubs.stub(code, seat), stubs.assembled(code, seat)
        for name in ("code", "consts", "names", "linetable", "exceptiontable", "stacksize"):
            assert getattr(made, f"co_{name}") == getattr(wanted, f"co_{name}"), code
        if question(code, seat, *stubs.arguments(code)) is None:
            by_itself.add(code.co_name)
    assert by_itself == {"of_ours", "many"}


def test_code_without_its_switchboard_runs_the_body():
    code, made = stubs.stub_tree(compile(MODULE, "module.py", "exec"), "m", "__aotdyn_s_nowhere")
    space = {}
    with installed():
        exec(code, space)
    assert space["twin"](3) == 3
    assert originals.dispatcher_of(space["twin"].__code__) is None


def test_compact_marshal_shares_what_is_equal_and_nothing_else():
    source = "\n".join(f"def f{i}(self, x): return self.a + x, (1, 2.0, -0.0, 'é', 10**20)" for i in range(9))
    values = [compile(source, "m.py", "exec"), {}, {3: ".2"}, (1, True, 1.0, -0.0, 0.0, b"1", "1", 1j, None, ...)]
    data = compact.dumps(tuple(values))
    assert repr(marshal.loads(data)[1:]) == repr(tuple(values[1:]))
    assert marshal.loads(data)[0] == values[0]
    codes = list(all_code(marshal.loads(data)[0]))[1:]
    assert len({id(code) for code in codes}) == 9
    assert len({id(code.co_names) for code in codes}) == 1
    rewritten = stubs.stub_tree(values[0], "m", "b")[0]
    assert len(compact.dumps(rewritten)) < len(marshal.dumps(rewritten)) * 0.7
    assert compact.dumps([b"not in code"]) == marshal.dumps([b"not in code"])


@pytest.mark.parametrize(
    ("source", "nothing"),
    [
        ("def f(self, x, y=None): self.x = x if y is None else [y, {}]", True),
        ("def f(): raise NotImplementedError", True),
        ("def f(g):\n def h(): return g\n return h", True),
        ("def f(x): return x.T", False),
        ("def f(x): return -x", False),
        ("def f(x): return x[0]", False),
        ("def f(x): return x or 1", False),
        ("def f(x): del x[0]", False),
        ("def f(x):\n for _ in x: pass", False),
        ("def f(x): x()", False),
    ],
)
def test_functions_that_only_move_values_are_no_stubs(source, nothing):
    made = stubs.stub_tree(compile(source, "m.py", "exec"), "m")[1]
    assert ("f" in [info.qualname for info in made]) is not nothing


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(): return 1", ""),
        ("f = lambda x: x", ""),
        ("def f(m): m.eval(); return vars(m), dir(m), globals()", ""),
        ("def f(): yield", "a generator or coroutine"),
        ("async def f(): pass", "a generator or coroutine"),
        ("def f(): return locals()", "looks at its own frame by locals()"),
        ("def f(): return vars()", "looks at its own frame by vars()"),
        ("def f(): eval('1')", "looks at its own frame by eval()"),
        ("def f(): sys._getframe(1)", "looks at its own frame"),
        ("class f: pass", "the body of a module or class"),
        ("[x for x in y]", "a comprehension"),
    ],
)
def test_eligible(source, reason):
    code = compile(source, "x.py", "exec")
    assert stubs.eligible(next(c for c in code.co_consts if isinstance(c, CodeType))) == reason
    assert stubs.eligible(code) == "the body of a module or class"


def code_of(source, file="a.py"):
    return next(c for c in compile(source, file, "exec").co_consts if isinstance(c, CodeType))


def test_digest_ignores_file_and_first_line_alone():
    source = "def f(x):\n  def g(): return x\n  return g, {1, 'a', 2.5} , x in {'b', 'c', 'd'}"
    assert digest.digest(code_of(source)) == digest.digest(code_of("\n\n" + source, "b.py"))
    different = [
        source,
        source.replace("\n  return", "\n\n  return"),
        source.replace("def g(): return x", "def g(): return -x"),
        source.replace("{1,", "{True,"),
        *(f"def f(x): return {c}" for c in ("0.0", "-0.0", "0", "False", "0j", "-0j", "''", "b''", "()", "...")),
    ]
    assert len({digest.digest(code_of(text)) for text in different}) == len(different)


def test_digest_is_the_same_in_every_process():
    program = (
        "from aotdyn.rewrite.digest import digest\n"
        "code = compile('def f(x): return x in {\"a\", \"b\", \"c\", None, 1}', 'f', 'exec')\n"
        "print(digest(code))"
    )

    def printed(seed):
        env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.getcwd()}
        run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
        return run.stdout

    seen = {printed(seed) for seed in range(3)}
    assert len(seen) == 1
    assert len(seen.pop().strip()) == 20


def test_names():
    name = stubs.dispatcher_name("A.<locals>.f", "0" * 20, "3", "pkg.mod")
    assert name == f"__aotdyn_d_pkg_mod_A__locals__f_{'0' * 20}@3"
    assert names.digest_in(name) == ("0" * 20, "")
    assert names.digest_in(stubs.dispatcher_name("f", "a" * 20 + ".2")) == ("a" * 20, ".2")
