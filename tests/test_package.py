"""What `import aotdyn` gives and costs, and its errors."""

from __future__ import annotations

import copy
import pickle

import pytest

import aotdyn
from aotdyn import errors


def test_import_is_light(project):
    done = project.python(
        "-c",
        "import sys, aotdyn; aotdyn.__version__; print([m for m in ('torch', 'msgspec') if m in sys.modules])",
    )
    assert done.stdout == "[]\n", done.stderr


def test_hook_and_stats_do_not_import_torch(project):
    project.write("pkg.py", "def f(): pass")
    done = project.python(
        "-c", "import sys, aotdyn; aotdyn.install('pkg'); import pkg; aotdyn.stats(); print('torch' in sys.modules)"
    )
    assert done.stdout == "False\n", done.stderr


def test_public_names():
    assert set(aotdyn.__all__) <= set(dir(aotdyn))
    assert aotdyn.errors is errors
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        aotdyn.nothing  # noqa: B018


def test_messages_say_what_where_and_what_to_do():
    error = errors.GraphBreakError("call of print", where="app.py:3 in f", hint="move it out")
    assert str(error) == "call of print\n  at app.py:3 in f\n  hint: move it out"
    assert (error.what, error.where, error.hint) == ("call of print", "app.py:3 in f", "move it out")


@pytest.mark.parametrize(
    "error",
    [
        errors.GraphBreakError("what", where="here", hint="so"),
        errors.UserError("DYNAMIC_DIM", "message", "case"),
        errors.BackendError("failed", backend="eager"),
    ],
)
def test_errors_pickle_and_copy(error):
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(made) is type(error)
        assert str(made) == str(error)
        assert made.__dict__ == error.__dict__


def test_user_error_is_made_as_torchs_own():
    from torch._dynamo.exc import UserErrorType

    error = errors.UserError(UserErrorType.DYNAMIC_DIM, "use mark_dynamic")
    assert (error.error_type, error.msg, error.case_name) == (UserErrorType.DYNAMIC_DIM, "use mark_dynamic", None)
    assert str(error) == "use mark_dynamic"


def test_backend_error_shows_its_cause():
    error = errors.BackendError("failed")
    error.__cause__ = cause = ZeroDivisionError()
    assert error.inner_exception is cause
