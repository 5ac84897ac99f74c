"""Subclasses of builtins that answer otherwise than what they hold, and classes that answer for their objects."""

import torch
from differential import program


class Longer(tuple):
    def __len__(self):
        return 99


class Hiding(dict):
    def __iter__(self):
        return iter(())

    def items(self):
        return ()

    def __len__(self):
        return 7


class Refusing(type):
    def __instancecheck__(cls, instance):
        return instance == 3


class Refused(metaclass=Refusing):
    pass


@program(lambda: (torch.ones(2, 3), Longer((1, 2)), Hiding(a=1)))
def containers_that_say_another_length(x, longer, hiding):
    return x + 1, len(longer), longer[1], [*longer], len(hiding), hiding["a"], list(hiding), dict.__len__(hiding)


@program(lambda: (torch.ones(2, 3), Refused()), whole=True)
def an_object_of_the_very_class_is_not_asked_for(x, made):
    return x + 1, isinstance(made, Refused), isinstance(3, Refused), isinstance(4, Refused)
