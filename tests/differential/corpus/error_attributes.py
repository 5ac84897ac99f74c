"""What exceptions carry beside their arguments: fields that are kept in C, and what failed."""

import torch
from differential import program

FIELDS = ("code", "name", "obj", "path", "msg", "value", "errno", "filename", "lineno", "text", "strerror", "args")


class OwnExit(SystemExit):
    pass


class Slotted:
    __slots__ = ("__dict__", "kept")


class Failing:
    @property
    def plain(self):
        raise AttributeError("of the property")

    def __getattr__(self, name):
        raise AttributeError(name, "said twice")


def ones():
    return (torch.ones(2, 3),)


@program(ones, whole=True)
def fields_of_exceptions(x):
    errors = [SystemExit(3), SystemExit(), SystemExit(1, 2), OwnExit(4), ImportError("m"), NameError("n")]
    errors += [AttributeError("a"), StopIteration(1, 2), SyntaxError("s"), OSError("o"), KeyError("k"), ImportError()]
    return x + 1, [(name, getattr(each, name, "none")) for each in errors for name in FIELDS]


@program(ones, whole=True)
def an_exit_with_a_tensor(x):
    try:
        raise SystemExit(x)
    except SystemExit as error:
        return x + 1, error.code is x


def missing_global():
    return missing  # noqa: F821


def unbound():
    del later  # noqa: F821
    later = 1  # noqa: F841


@program(ones, whole=True)
def errors_name_what_failed(x):
    found = []
    for function in (lambda: x.missing, lambda: (3).missing, lambda: Failing().plain, lambda: Failing().other):
        try:
            function()
        except AttributeError as error:
            found.append((error.name, type(error.obj).__name__, error.args, vars(error)))
    for function in (missing_global, unbound):
        try:
            function()
        except NameError as error:
            found.append((type(error).__name__, error.name, error.args))
    return x + 1, found


@program(ones)
def an_error_that_names_what_failed_is_returned(x):
    try:
        return x.missing
    except AttributeError as error:
        kept = error
    return x + 1, kept.name, kept


@program(ones, whole=True)
def slots_are_not_in_the_dict(x):
    made = Slotted()
    made.kept, made.free = 1, 2
    del made.kept
    try:
        del made.kept
    except AttributeError as error:
        return x + 1, vars(made), len(vars(made)), str(error)
