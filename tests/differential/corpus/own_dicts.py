"""An object's `__dict__` that comes from outside as a dict: what is written to either shows in both."""

import torch
from differential import Turns, program


class Held:
    def __init__(self):
        self.value = 1


def shared(make=Held):
    held = make()
    return torch.ones(2, 3), held, vars(held)


def apart():
    return torch.ones(2, 3), Held(), {"value": 5}


def layer():
    made = torch.nn.Identity()
    made.value = 1
    return made


@program(shared, whole=True)
def a_dict_is_written_and_an_attribute_read(x, held, own):
    before = held.value
    own["value"] = 3
    return x * held.value + before


@program(shared)
def a_dict_is_written_before_any_attribute_is_read(x, held, own):
    own["value"] = 3
    return x * held.value


@program(lambda: shared(layer))
def an_attribute_of_a_module_is_written_and_its_dict_read(x, held, own):
    held.value = 5
    y = x * own["value"]
    del own["value"]
    return y, getattr(held, "value", 7), "value" in own


@program(shared, whole=True)
def the_dict_is_the_same_one(x, held, own):
    return x * (held.__dict__ is own), vars(held) == own


@program(shared)
def a_method_of_a_dict_across_a_break(x, held, own):
    held.__dict__.update(more=int(x.sum().item()))
    return x * (2 if hasattr(held, "more") else 3), len(own)


@program(Turns(apart, shared, apart), calls=3)
def another_dict_and_then_the_objects_own(x, held, own):
    own["value"] = 3
    return x * held.value


@program(Turns(shared, apart, shared), calls=3)
def the_objects_own_dict_and_then_another(x, held, own):
    held.value = 3
    return x * own["value"]


def function():
    def made():
        pass

    return torch.ones(2, 3), made, made.__dict__


@program(function)
def attributes_of_a_function(x, held, own):
    own["value"] = 3
    return x * getattr(held, "value", 2)


def tensor():
    held = torch.ones(2, 3)
    return held + 1, held, held.__dict__


@program(tensor)
def attributes_of_a_tensor(x, held, own):
    own["value"] = 3
    return x * getattr(held, "value", 2)
