"""What each reason for a break means for a user, and what to do about it, if anything.

The reasons stand where the tracer breaks; `docs/coverage.md` lists them with these sentences, and
`tests/report/test_advice.py` sees to it that each has one. In a pattern … stands for whatever is filled in; the first
row that fits counts, so what is special stands above what is general.
"""

from __future__ import annotations

import functools
import re

GENERAL = "Python runs it between two graphs; that costs time only where it happens often."
"What is said where no row fits, as of a reason that another package made up."

ADVICE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Python needs to know what was computed, so the graph has to run first. Keep the decision in tensors "
        "(torch.where, a mask, torch.cond), or read the number once, behind the hot part: there it is harmless.",
        (
            "a branch on …",
            "… of a number that depends on data",
            "a number that depends on data …",
            "…() of a tensor depends on its data",
            "round() of a tensor gives a Python number",
            "the index is … data",
            "… that depends on data",
            "…a tensor's data as a Python object",
            "a numpy scalar's data as a Python number",
            "a tensor as the index of a list or tuple",
            "a size that depends on data, in one of numpy's functions",
            "torch._check of a tensor",
            "torch._check failed",
            "mark_static of a size that depends on data",
            "how often LBFGS calls its closure depends on data",
            "torch.vmap over a size that isn't known while tracing",
            "… of a sparse tensor: how many elements it holds isn't known",
        ),
    ),
    (
        "Output, logging, warnings and clocks belong to Python: harmless. In a hot loop, move it behind the loop "
        "or do it every so many steps.",
        (
            "print() …",
            "logging runs in Python",
            "a logger is asked for its level",
            "a warning is issued by Python",
            "a warning names the caller of the compiled code",
            "reading .grad of a tensor that isn't a leaf warns",
            "… without use_reentrant warns",
            "the clock is read by Python",
            "a profiler…",
            "An expression statement of an interactive session is printed.",
            "sys.exc_info() while an exception is handled",
        ),
    ),
    (
        "That part is compiled by itself, since it breaks inside: harmless. What it breaks on is listed at its own "
        "line.",
        ("call of …, which is compiled by itself, since it breaks",),
    ),
    (
        "The loop isn't unrolled any further. Put its body into a function of its own (it is compiled by itself), "
        "write it with tensor operations, or raise max_unrolled.",
        (
            "a loop of more than … iterations",
            "a loop in whose first … iterations nothing is captured",
        ),
    ),
    (
        "The answer differs from process to process (addresses, hashes, the order of sets), so nothing that is "
        "stored may rest on it. Go by names or numbers of your own, and iterate over sorted() sets.",
        (
            "id() …",
            "the number that id() gives",
            "a number as a key that may be an address…",
            "the address of an object, by its hash or repr",
            "addresses of two equal constants",
            "… differs from process to process",
            "hash() of …",
            "iteration over a set in an order that differs from process to process",
            "identity of …",
            "a … with its own __hash__ as a key",
            "… as a key",
            "index() of an object that isn't in the list…",
        ),
    ),
    (
        "Drawing random numbers in Python goes on from a state that Python keeps. Draw them with torch "
        "(torch.rand, torch.randint, a torch.Generator), or before the hot function and hand them in.",
        (
            "a random …",
            "a choice by a random generator…",
            "a … is drawn by Python",
            "an array of random numbers is drawn by Python",
            "random numbers of a generator…",
            "what is drawn are no numbers by themselves",
            "… of a random generator…",
            "… behind random numbers of the graph",
        ),
    ),
    (
        "Making classes, dataclasses, enumerations and signatures is Python's. Do it once, at the module's level.",
        (
            "A class is defined.",
            "a dataclass is made by Python",
            "an enumeration is made",
            "type() makes a class",
            "type.__call__ that makes a class",
            "functools.singledispatch of a class that the frame makes",
            "the subclasses of a class that the frame makes",
            "a signature is inspected by Python",
            "A name of a class or module body is used…",
            "a union of types that aren't known",
            "subscript of …",
        ),
    ),
    (
        "The module isn't loaded yet when this runs. Import it at the top of the file.",
        (
            "import of …",
            "The arguments of an import…",
            "The module has no attribute … to import.",
            "`from module import *`…",
        ),
    ),
    (
        "Coroutines and asynchronous code run in Python: harmless. Put the tensor work into a plain function that "
        "they call.",
        (
            "A coroutine is made.",
            "An asynchronous …",
            "A coroutine …",
            "… asynchronous…",
        ),
    ),
    (
        "The iterator or generator began outside of what is compiled, so what it does next is Python's. Make it "
        "inside, or hand in a list.",
        (
            "A generator from outside…",
            "A method is called on a generator…",
            "the next item of a …",
            "a set got other items while it was iterated",
            "a dict got other keys while it was iterated",
            "an object's attributes change while they are iterated",
            "a dict's view from outside",
            "… of islice() that raise",
            "iteration over a module's namespace",
            "reversed() of an object's __dict__",
        ),
    ),
    (
        "Exceptions that come from outside, and tracebacks, are Python's: harmless. Keep their handling out of the "
        "hot function.",
        (
            "A bare `raise` …",
            "a traceback is set",
            "the traceback of …",
            "an exception …",
            "`__notes__` isn't a list",
            "a method of exception groups on a …",
            "…() raises a …",
            "the cached function … raises …",
            "… raises …",
        ),
    ),
    (
        "Forward or backward hooks are put in or taken away by Python. Register them once, before the model runs; "
        "calls of hooks are captured.",
        (
            "a hook is registered or taken away",
            "a gradient hook …",
            "hooks of a backward pass",
        ),
    ),
    (
        "State dicts are for saving and loading: harmless, unless it happens at each step.",
        (
            "a state dict is made or loaded",
            "taking …apart as pickle does…",
            "copying a tensor as a Python object…",
        ),
    ),
    (
        "This autograd.Function does more than a graph can say of it, so Python runs it. Keep forward and backward "
        "to tensor operations on their arguments, tensors in and out, gradients for all that require them; or use "
        "torch.library.custom_op.",
        ("a custom autograd.Function…",),
    ),
    (
        "A backward pass, or a derivative, reaches beyond what the graph sees. Leave the call of backward() in the "
        "training loop, outside of the compiled function: there it is harmless.",
        (
            "a backward pass…",
            "the grad mode of a backward pass",
            "forward-mode derivatives are switched",
            "a level of forward-mode derivatives that was opened outside",
            "autograd of a tensor that was made to require a gradient while tracing",
            "Tensor.requires_grad_: …",
            "setting requires_grad …",
            "setting grad …",
            "setting data …",
            "a change in place …",
            "… under a transform of torch.func",
            "is_batchedtensor of something that isn't a tensor",
            "… of what requires grad",
        ),
    ),
    (
        "What changes here lies in memory that something else sees as well, and the order of the two would not be "
        "certain. Work on a copy (clone), or write out of place.",
        (
            "… writes to …",
            "… may change a tensor in place that exists outside of it",
            "… gives what it was handed",
            "numpy's … gives a view, torch a copy",
            "… may raise on its data inside a try or with block…",
            "something is changed behind an operator that may raise…",
            "a weak reference is asked behind something that was given up",
            "a … is given up, which may have something to clean up",
            "a … is made, which has a `__del__`",
            "an effect in a function that may run at another time or not at all",
            "a change of what exists outside, in a function …",
        ),
    ),
    (
        "A mode of torch is entered in a way that a graph doesn't record. Enter it with `with`, around the call of "
        "the compiled function.",
        (
            "an unusual torch.inference_mode",
            "torch.inference_mode is left …",
            "a default device is left that wasn't entered",
            "…autocast …",
            "changing the default dtype …",
            "deterministic mode is off and would warn only",
            "a torch function mode is active",
            "an environment variable is set",
            "an attribute of this thread alone",
        ),
    ),
    (
        "A tensor subclass, a sparse, nested or quantized tensor has operators of its own, which Python runs.",
        (
            "an operation on a tensor of class …",
            "`__torch_function__` of …",
            "…: a quantized tensor",
            "…: a nested tensor",
            "Tensor.type with a class",
            "a legacy constructor of tensors …",
        ),
    ),
    (
        "numpy does it, and the array goes back into a graph behind it. Use torch's function of the same name, "
        "which is captured.",
        (
            "numpy's …",
            "… of numpy's functions…",
            "one of numpy's functions: …",
            "an array …",
            "a tensor made of a numpy array",
            "`…` of an array and something else",
            "a method of numpy.ndarray on something else",
            "….… needs the array itself",
        ),
    ),
    (
        "Making this object is Python's. Make it once, outside of the hot function, and hand it in.",
        (
            "construction of …",
            "a tensor made of numbers that are tensors with a gradient, or of another kind",
            "bytearray() runs in Python",
            "a … with attributes that are kept in C",
            "call of a cached function that the frame makes itself",
        ),
    ),
    (
        "The function is written in C, or can't be read as Python, and aotdyn doesn't know what it does. Harmless "
        "where it is called seldom; else use torch's or plain Python's way, or call it outside of the hot "
        "function.",
        (
            "call of …",
            "…() runs in Python",
            "vars() of the frame",
            "super() with one argument",
            "arguments that …",
            "a cached function is called with a … that isn't known",
            "comparison of … objects in C",
            "a getter of an unknown kind",
            "a builtin method of … on …",
            "….fromkeys()",
            "a dict method on …",
            "an OrderedDict updated with what isn't pairs",
            "…() of a module's namespace",
            "… of the names of a class",
            "an … from outside of the compiled code",
            "A call fails, and the callee's name for the message isn't known.",
        ),
    ),
    (
        "An attribute is read, set or deleted in a way of its own (a descriptor or `__setattr__` in C, a "
        "metaclass, a function's or class's own attribute). Do it before the hot function, or keep the value in a "
        "plain attribute.",
        (
            "setting …",
            "deleting …",
            "attribute …",
            "….__getattr__ is not a Python function",
            "nn.Module.__getattr__ of an unusual object",
            "cached_property on an object of an unusual kind",
            "a partialmethod …",
            "a partial object …",
            "keywords of a partial object that aren't loaded",
            "__subclasscheck__ of …",
            "issubclass with a class that isn't known",
            "`__match_args__` or the names of a class pattern aren't known.",
            "… of a module is a …",
        ),
    ),
    (
        "The text depends on what isn't known before the graph has run. Harmless for messages; build them outside "
        "of the hot function.",
        (
            "formatting of a …",
            "`%` formatting of a value that isn't known",
            "A part of a formatted string isn't known while tracing.",
            "str.format() …",
            "str() of …",
            "repr() …",
            "a regular expression on a …",
        ),
    ),
    (
        "Such a value can't go into a graph. Hand it over as a tensor, a number, a string, or a list, tuple or "
        "dict of them.",
        (
            "… can't be put in a graph",
            "… that a graph can't hold",
            "a … as argument of an operator",
            "an operator whose result is a …",
            "an operator whose result is a dict",
            "an operator on …",
            "a symbolic number without a node in the graph",
            "Tensor.… on something that isn't a tensor",
            "a method of Tensor on something else",
            "mark_static of something that isn't a tensor",
            "iteration over a tensor",
            "too many indices for a tensor",
            "… leaves an fx.GraphModule",
            "an operation on constants that exhausts memory or the stack",
        ),
    ),
    (
        "aotdyn can't tell what this is before it runs. Harmless where it happens seldom; else make it from "
        "arguments of the function, inside it.",
        (
            "…n't known while tracing",
            "… is not known while tracing",
            "… of a tensor whose strides aren't known yet",
            "broadcast_shapes…",
            "…, and it leaves the frame",
        ),
    ),
    (
        "Python asks the tensor itself (its memory, its bytes, a way of torch's without an operator). Harmless "
        "around the model; in a hot function use operators.",
        (
            "Tensor.…",
            "torch.…: …",
        ),
    ),
    (
        "An exception ends the graph, and Python raises it: harmless where it is rare.",
        ("… leaves the frame",),
    ),
    (
        "What control flow as an operator (torch.cond, while_loop, scan, map, checkpoint) may hold is limited: "
        "functions of tensors alone, with results of the same kind on each way.",
        (
            "… of a tensor that is no argument",
            "… on a tensor that isn't one bool",
            "… whose …",
            "… with a context of its own",
            "… with keyword arguments that it doesn't know",
            "… with unusual arguments",
            "… without an argument that requires grad",
            "a … goes into or comes out of …",
            "a … as operands of an operator",
            "… leaves a mode changed",
            "… over a …",
            "… of a …",
            "… on a …",
        ),
    ),
    (
        "torch refused the operation on stand-ins for the tensors, so Python runs it; if it is a mistake, Python's "
        "message follows.",
        ("…: …",),
    ),
)


def of(reason: str) -> str:
    """What to say to a user whose program broke for this reason."""
    return next((text for text, pattern in _rows() if pattern.fullmatch(reason)), GENERAL)


@functools.cache
def _rows() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((text, _pattern(patterns)) for text, patterns in ADVICE)


def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(".*".join(map(re.escape, each.split("…"))) for each in patterns), re.DOTALL)
