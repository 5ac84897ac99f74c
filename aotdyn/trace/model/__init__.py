"""What Python's operations mean on values: the data model, implemented once for every kind of value.

Opcode handlers and the handlers of C functions call these; nothing here knows
an opcode. Everything raises `control.Raised` for an exception of the traced
program, and `control.Break` for what Python has to do.
"""

from .attributes import class_lookup, class_value, get_attr, has_attr, type_of
from .calls import build_slice, call, call_function, call_method
from .constants import as_constant, as_python, constant, is_constant
from .containers import (
    contains,
    del_item,
    get_item,
    length,
    load_entries,
    lookup,
    native_key,
    set_item,
    store_entry,
)
from .iteration import advance, iterate, unpack
from .operators import (
    binary,
    compare,
    dispatch_binary,
    format_value,
    inplace,
    is_instance,
    is_same,
    is_subclass,
    truth,
    unary,
)
from .stores import del_attr, set_attr

__all__ = [
    "advance",
    "as_constant",
    "as_python",
    "binary",
    "build_slice",
    "call",
    "call_function",
    "call_method",
    "class_lookup",
    "class_value",
    "compare",
    "constant",
    "contains",
    "del_attr",
    "del_item",
    "dispatch_binary",
    "format_value",
    "get_attr",
    "get_item",
    "has_attr",
    "inplace",
    "is_constant",
    "is_instance",
    "is_same",
    "is_subclass",
    "iterate",
    "length",
    "load_entries",
    "lookup",
    "native_key",
    "set_attr",
    "set_item",
    "store_entry",
    "truth",
    "type_of",
    "unary",
    "unpack",
]
