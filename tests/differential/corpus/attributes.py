"""Attributes that fail to be read, and `__getattr__` behind them."""

import functools

import torch
from differential import program


class Incomplete:
    @property
    def plain(self):
        return self.nothing

    @functools.cached_property
    def kept(self):
        return self.nothing


class Answering(Incomplete):
    def __getattr__(self, name):
        if name == "nothing":
            raise AttributeError(name)
        return f"answer to {name}"


class Refusing(Incomplete):
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        raise AttributeError(f"refused: {name}")


class IncompleteModule(torch.nn.Module):
    @property
    def plain(self):
        return self.nothing


@program(lambda: (torch.ones(2, 3),), whole=True)
def a_property_fails_and_getattr_answers(x):
    found = []
    for each in (Incomplete(), Answering(), Refusing()):
        for name in ("plain", "kept", "nothing"):
            found.append((hasattr(each, name), getattr(each, name, None)))
            try:
                found.append(getattr(each, name))
            except AttributeError as error:
                found.append((str(error), error.__context__))
    return x + 1, found


@program(lambda: (torch.ones(2, 3), IncompleteModule()))
def a_property_of_a_module_fails(x, module):
    try:
        return x + module.plain
    except AttributeError as error:
        return x + 1, str(error)
