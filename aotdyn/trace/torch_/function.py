"""`torch.autograd.Function`: forward and backward become two graphs inside the graph.

The backward is traced where the function is applied, on gradients that look
like the outputs. What autograd does around both is done natively by the class
that `graph.native.apply_function` makes.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.autograd.function import _SingleLevelFunction
from torch.nn.modules._functions import BackwardHookFunction

from aotdyn.graph.build import Operand

from ..control import Break, Raised
from ..handlers import handles
from ..polyfills.autograd_ import Context
from ..values import Class, Const, Function, Object, Sequence, Tensor, Value, force
from . import calls, regions

NAME = "a custom autograd.Function"


@handles(vars(torch.autograd.Function)["apply"].__func__)
def apply(t: Any, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """Inlined where no gradient can be asked for; Break for what the graphs can't say."""
    from .. import model

    function = force(cls)
    if not isinstance(function, Class):
        raise Break(NAME)
    if function.obj is BackwardHookFunction:
        raise Break("hooks of a backward pass", "A module puts them on this function's own node of the autograd graph.")
    regions.no_levels(NAME)
    if t.differentiating:
        raise Break(f"{NAME} in a backward pass", "Whether it is differentiated in turn is known when it runs.")
    if t.state.dual_levels:
        raise Break(f"{NAME} under forward-mode derivatives")
    args = _arguments(t, function, args, kwargs)
    given = [force(arg) for arg in args]
    for each in given:
        if isinstance(each, Tensor):
            calls.check_ordinary(each)
    needs = tuple(isinstance(each, Tensor) and each.fake.requires_grad for each in given)
    context = force(model.call(t, model.class_value(t, Context), [model.constant(needs)], {}))
    assert isinstance(context, Object)
    if t.state.read("grad") and any(needs):
        return _Application(t, function, context, given, needs).record()
    return _inlined(t, function, context, given)


def _arguments(t: Any, function: Class, args: tuple[Value, ...], kwargs: dict[str, Value]) -> tuple[Value, ...]:
    """What forward is called with: with a setup_context, defaults are filled in."""
    from .. import model
    from ..model.calls import bind_arguments

    if not _sets_up(function):
        if kwargs:
            raise Break(f"{NAME} with keyword arguments")
        return args
    forward = force(model.get_attr(t, function, "forward"))
    if not isinstance(forward, Function) or forward.code.co_kwonlyargcount or forward.code.co_flags & 0xC:
        if kwargs:
            raise Break(f"{NAME} with keyword arguments")
        return args
    code = forward.code
    bound = bind_arguments(t, forward, list(args), kwargs)
    return tuple(bound[name] for name in code.co_varnames[: code.co_argcount])


def _sets_up(function: Class) -> bool:
    cls: Any = function.obj
    return cls.setup_context is not _SingleLevelFunction.setup_context


def _forward(t: Any, function: Class, context: Object, args: list[Value]) -> Value:
    from .. import model

    forward = model.get_attr(t, function, "forward")
    if not _sets_up(function):
        return force(model.call(t, forward, [context, *args], {}))
    result = force(model.call(t, forward, list(args), {}))
    model.call(t, model.get_attr(t, function, "setup_context"), [context, Sequence(tuple, list(args)), result], {})
    return result


def _outputs(result: Value) -> list[Value]:
    return [force(item) for item in result.items] if isinstance(result, Sequence) else [result]


def _noted(context: Object, name: str) -> list[Value]:
    """Tensors that forward told the context of."""
    told = context.attrs.get(name)
    found = force(told) if told is not None else Sequence(tuple, [])
    return [force(item) for item in found.items] if isinstance(found, Sequence) else [found]


def _inlined(t: Any, function: Class, context: Object, args: list[Value]) -> Value:
    """Forward alone, without grad; a tensor that is handed through becomes a view."""
    before = t.state.read("grad")
    t.state.write("grad", False)
    try:
        result = _forward(t, function, context, args)
    except Raised:
        t.state.write("grad", before)
        raise
    if any(each is not None for each in _noted(context, "dirty_tensors")):
        raise Break(f"{NAME} that writes to its inputs")

    def through(output: Value) -> Value:
        handed = isinstance(output, Tensor) and any(output is arg for arg in args)
        return calls.record(t, "view_as", [output, output], {}) if handed else output

    outputs = [through(output) for output in _outputs(result)]
    if any(isinstance(each, Tensor) and each.fake.requires_grad for each in outputs):
        raise Break(f"{NAME} that gives a tensor which requires grad")
    t.state.write("grad", before)
    return Sequence(result.cls, outputs) if isinstance(result, Sequence) else outputs[0]


class _Application:
    """One call of `apply` on its way into the graph."""

    def __init__(self, t: Any, function: Class, context: Object, args: list[Value], needs: tuple[bool, ...]) -> None:
        self.t, self.function, self.context, self.args, self.needs = t, function, context, args, needs

    def record(self) -> Value:
        """Trace both halves and record the call."""
        t = self.t
        with regions.region(t, NAME, effects_=True, grad=False) as scope:
            inputs = self._inputs(scope)
            result = _forward(t, self.function, self.context, self.args)
            self._check(result)
            outputs = _outputs(result)
            backward = self._backward(outputs, inputs)
            kept = regions.outer(backward)
            saved = [scope.local(value.node) for value in _noted(self.context, "to_save") if isinstance(value, Tensor)]
            plain = regions.leaves(t, NAME, outputs)
            first = plain if isinstance(result, Sequence) else plain[0]
            forward = regions.close(NAME, scope, (first, tuple(each.node for each in kept)))
        constant = _noted(self.context, "non_differentiable")
        node, found = regions.call(
            t,
            autograd_function_apply,
            [t.builder.nested(forward, "forward"), t.builder.nested(backward, "backward"), *regions.outer(forward)],
            {
                "non_differentiable_idx": [i for i, each in enumerate(outputs) if any(each is one for one in constant)],
                "saved_for_backward_idx": [i for i, each in enumerate(kept) if each.node in saved],
            },
        )
        return calls.wrap(t, node, found, {})

    def _inputs(self, scope: Any) -> list[Any]:
        """Tensors among the arguments, each once: the first inputs of the forward graph."""
        nodes = [scope.local(arg.node) for arg in self.args if isinstance(arg, Tensor)]
        return list(dict.fromkeys(nodes))

    def _check(self, result: Value) -> None:
        if any(isinstance(each, Tensor) for each in _noted(self.context, "dirty_tensors")):
            raise Break(f"{NAME} that writes to its inputs")
        if isinstance(result, Sequence) and result.cls is not tuple:
            raise Break(f"{NAME} that gives a {result.cls.__qualname__}")
        scope = self.t.builder.scope
        for each in _outputs(result):
            if not isinstance(each, (Tensor, Const)):
                raise Break(f"{NAME} that gives a {each.cls.__qualname__}")
            outside = isinstance(each, Tensor) and each.node.graph is not scope.graph
            if outside and not any(each is arg for arg in self.args):
                raise Break(f"{NAME} that gives a tensor from elsewhere")

    def _backward(self, outputs: list[Value], inputs: list[Any]) -> Any:
        """The backward graph: gradients of the outputs and what it needs besides, to gradients of the inputs."""
        t = self.t
        context = self.context
        materialize = context.attrs.get("materialize_grads")
        materialized = materialize is None or bool(regions.known(materialize, True, "materialize_grads"))
        constant = _noted(context, "non_differentiable")
        reached = [each for each in outputs if isinstance(each, Tensor) and not any(each is one for one in constant)]
        if not materialized and len(reached) != 1:
            raise Break(f"{NAME} whose gradients may be None")
        off = {key: False for key in t.state.current if isinstance(key, tuple) and key[0] == "enabled"}
        with regions.region(t, NAME, grad=False) as scope:
            t.state.current.update(off)
            with regions.differentiating(t):
                returned = self._differentiate([self._gradient(scope, i, each) for i, each in enumerate(outputs)])
            t.state.current.update({key: t.state.began[key] for key in off})
            found = self._by_input(returned, inputs)
            return regions.close(NAME, scope, regions.leaves(t, NAME, found))

    def _gradient(self, scope: Any, i: int, output: Value) -> Value:
        """The gradient that comes in for an output: None for what isn't a tensor."""
        name = f"gradient_{i}"
        if not isinstance(output, Tensor):
            scope.input(name, None)
            return Const(None)
        operand: Operand = self.t.builder.fresh_like(name, output.fake)
        self.t.unlaid.add(id(operand.fake))
        return Tensor(operand.node, operand.fake)

    def _differentiate(self, gradients: list[Value]) -> list[Value]:
        """Call backward; what it gives for each argument."""
        from .. import model

        t = self.t
        cls: Any = self.function.obj
        own = cls.backward is not _SingleLevelFunction.backward
        if cls.boxed_grads_call or cls.clear_saved_tensors_on_access:
            raise Break(f"{NAME} with unusual gradients")
        method = model.get_attr(t, self.function, "backward" if own else "vjp")
        result = force(model.call(t, method, [self.context, *gradients], {}))
        found = _outputs(result) if isinstance(result, Sequence) and result.cls is tuple else [result]
        for each in found:
            if not isinstance(each, Tensor) and not (isinstance(each, Const) and each.value is None):
                raise Break(f"{NAME} whose gradient is a {each.cls.__qualname__}")
        if len(found) < len(self.args) or any(isinstance(each, Tensor) for each in found[len(self.args) :]):
            raise Break(f"{NAME} with {len(found)} gradients for {len(self.args)} arguments")
        return found

    def _by_input(self, gradients: list[Value], inputs: list[Any]) -> list[Value]:
        """A gradient for each input of the forward graph; those of a tensor given twice are added."""
        t = self.t
        forward = t.builder.scope.outer
        found: dict[Any, Value] = dict.fromkeys(inputs, Const(None))
        for arg, needed, gradient in zip(self.args, self.needs, gradients):
            if not isinstance(arg, Tensor):
                if isinstance(gradient, Tensor):
                    raise Break(f"{NAME} with a gradient for what isn't a tensor")
                continue
            if not needed or not isinstance(gradient, Tensor):
                continue
            node = forward.local(arg.node)
            sum_ = found[node]
            found[node] = calls.record(t, operator.add, [sum_, gradient], {}) if isinstance(sum_, Tensor) else gradient
        return list(found.values())
