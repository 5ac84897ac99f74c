"""Which torch callables go into the graph as one call.

The table is made once, by walking torch's public namespaces: C operators, and
the Python functions around them whose only effect is on tensors. Functions
that tell Python facts have handlers instead; everything else written in Python
is traced into.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from aotdyn import marks

from .compiler import allowed_in_graph


def words(text: str) -> frozenset[str]:
    """A set of names, written as one text."""
    return frozenset(text.split())


C_NAMESPACES: tuple[Any, ...] = (
    torch._C._VariableFunctions,
    torch._C._nn,
    torch._C._linalg,  # type: ignore[attr-defined]
    torch._C._fft,  # type: ignore[attr-defined]
    torch._C._special,  # type: ignore[attr-defined]
    torch._C._sparse,  # type: ignore[attr-defined]
)
"""Everything written in C here is an operator, but for FACTS and BROKEN."""

PYTHON_NAMESPACES = (torch, torch.functional, torch.nn.functional, torch._VF, torch.sparse, torch.masked)
"""Searched for Python functions whose module is one of PYTHON_MODULES."""

PYTHON_MODULES = frozenset(
    [
        "torch.functional",
        "torch.nn.functional",
        "torch._linalg_utils",
        "torch._lowrank",
        "torch._lobpcg",
        "torch.sparse",
        "torch.masked._ops",
    ]
)

FACTS = words(
    "can_cast is_complex is_conj is_distributed is_floating_point is_inference is_neg is_nonzero is_same_size is_signed"
    " is_vulkan_available promote_types result_type numel get_device cudnn_is_acceptable"
    " _has_compatible_shallow_copy_type _use_cudnn_ctc_loss _use_cudnn_rnn_flatten_weight _nnpack_available"
    " broadcast_shapes assert_int_or_pair handle_torch_function has_torch_function has_torch_function_unary"
    " has_torch_function_variadic get_all_sharing_strategies boolean_dispatch"
)
"""Functions that tell Python facts: handlers fold them, or they are traced into."""

BROKEN = words("from_numpy frombuffer from_file from_dlpack _local_scalar_dense dequantize_self")
"""Functions that make tensors of data that the graph doesn't have."""

TRACED = words(
    "triplet_margin_with_distance_loss _overload _jit_unused _list_with_default _pair _single _triple _sym_int"
    " _expand_single_value _list_or_empty _enum_list_as_int_list _get_softmax_dim _is_integer _verify_batch_size"
    " _verify_spatial_size _none_or_dtype _unpool_output_size _check_unpool_output_size _mha_shape_check"
    " _check_key_padding_mask _check_list_size as_sparse_gradcheck linear_cross_entropy"
    " to_sparse_semi_structured _canonical_dim _generate_docstring"
)
"""Python functions that take callables or only look at Python values."""

PYTHON_FACT_METHODS = words(
    "__len__ __iter__ __hash__ __dir__ __array__ __array_wrap__ __contains__ __format__ __repr__ __reversed__"
    " __deepcopy__ __reduce_ex__ __setstate__ __dlpack__ __dlpack_device__ __torch_function__ __torch_dispatch__"
    " __bool__ __int__ __float__ __complex__ __index__ __nonzero__ __long__ __getitem__ __setitem__ __delitem__"
    " __cuda_array_interface__ __new__ __init__ __init_subclass__ __class_getitem__ __subclasshook__ __getattribute__"
    " __setattr__ __delattr__ __getstate__ __sizeof__ __reduce__ __str__"
)
"""Methods of Tensor that don't go into the graph by their name: handlers or the data model answer for them."""


@functools.cache
def functions() -> frozenset[Any]:
    """The operators that are found in torch's namespaces."""
    found: set[Any] = set()
    for space in C_NAMESPACES:
        for name in dir(space):
            value = getattr(space, name, None)
            if isinstance(value, types.BuiltinFunctionType) and name not in FACTS and name not in BROKEN:
                found.add(value)
    for space in PYTHON_NAMESPACES:
        for name in dir(space):
            value = vars(space).get(name)
            if isinstance(value, types.FunctionType) and value.__module__ in PYTHON_MODULES and _operator(name):
                found.add(value)
    return frozenset(found)


def _operator(name: str) -> bool:
    return name not in FACTS and name not in BROKEN and name not in TRACED


@functools.cache
def methods() -> dict[Any, str]:
    """Tensor's methods that go into the graph by name: descriptor or Python function -> name."""
    found: dict[Any, str] = {}
    for cls in (torch._C.TensorBase, torch.Tensor):
        for name, raw in vars(cls).items():
            callable_ = isinstance(raw, (types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType))
            if callable_ and name not in PYTHON_FACT_METHODS:
                found[raw] = name
    return found


def raw_method(name: str) -> Any:
    """What Tensor's MRO holds under `name`: the key of its handler; None if absent."""
    for cls in torch.Tensor.__mro__[:-1]:
        if name in cls.__dict__:
            return cls.__dict__[name]
    return None


def is_leaf(fn: Any) -> bool:
    """Whether a call of `fn` goes into the graph as one node."""
    if isinstance(fn, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    if not isinstance(fn, _KINDS):
        return False
    if fn in marks.IN_GRAPH:
        return True
    return fn in functions() or fn in methods() or (isinstance(fn, types.FunctionType) and allowed_in_graph(fn))


_KINDS = (
    types.BuiltinFunctionType,
    types.FunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)


MAY_RAISE = words(
    "embedding embedding_bag cholesky inv inverse solve solve_triangular lstsq eigh eigvalsh eig eigvals svd svdvals"
    " ldl_factor lu_factor cholesky_solve cholesky_inverse multinomial bernoulli normal poisson nll_loss nll_loss2d"
    " cross_entropy one_hot gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_"
    " index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ take"
    " take_along_dim put put_ _assert_async bincount histc binary_cross_entropy ctc_loss multi_margin_loss"
    " multilabel_margin_loss max_unpool1d max_unpool2d max_unpool3d repeat_interleave tensor_split segment_reduce"
    " bucketize masked_scatter masked_scatter_ matrix_power tensorinv tensorsolve unique_dim corrcoef"
    " linear_cross_entropy adaptive_log_softmax_with_loss binomial _check check_index"
)
"""Names of operators that may raise on their data, whatever the metadata says."""

DIVISIONS = words(
    "floordiv mod ifloordiv imod floor_divide floor_divide_ remainder remainder_ fmod fmod_ div divide div_ divide_"
    " __floordiv__ __mod__ __rfloordiv__ __rmod__ __ifloordiv__ __imod__ true_divide gcd"
)
"""Names of divisions: of integers by a tensor they may raise."""

ONE_DTYPE = words(
    "linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution mm mv"
    " matmul bmm addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ addbmm addbmm_ chain_matmul multi_dot"
    " vecdot einsum __matmul__ __rmatmul__ layer_norm native_layer_norm group_norm native_group_norm instance_norm"
    " batch_norm rms_norm native_batch_norm grid_sample grid_sampler grid_sampler_2d grid_sampler_3d affine_grid"
    " cross linalg_cross cdist pairwise_distance heaviside heaviside_ polar complex pinv linalg_pinv pinverse"
    " svd_lowrank pca_lowrank index_reduce index_reduce_ huber_loss soft_margin_loss multilabel_soft_margin_loss"
    " binary_cross_entropy_with_logits kl_div multi_head_attention_forward scaled_dot_product_attention softmax"
    " log_softmax softmin prelu dot vdot inner outer"
)
"""Operators whose kernels want operands of one dtype, which the fakes of several of them don't ask for."""


def may_raise(name: str, operands: list[Any]) -> bool:
    """Whether the operator called `name` may raise where its fakes don't, on its operands' data or dtypes."""
    if name in MAY_RAISE:
        return True
    tensors = [each for each in operands if isinstance(each, torch.Tensor)]
    if name in ONE_DTYPE:
        return len({each.dtype for each in tensors}) > 1
    whole = [not (each.dtype.is_floating_point or each.dtype.is_complex) for each in tensors]
    if name in DIVISIONS:
        return bool(whole) and all(whole) and not any(isinstance(each, (float, complex)) for each in operands)
    if name in ("getitem", "setitem", "__getitem__", "__setitem__"):
        return any(whole[i] and tensors[i].dtype is not torch.bool for i in range(1, len(tensors)))
    return False


SPARSE_PARTS = words(
    "values indices _values _indices crow_indices col_indices ccol_indices row_indices _nnz"
    " values_copy indices_copy _values_copy _indices_copy crow_indices_copy col_indices_copy ccol_indices_copy"
    " row_indices_copy"
)
"""Operators on sparse tensors whose result is as long as the tensor has elements, which a fake doesn't know."""

QUANTIZING = words(
    "quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel empty_quantized _empty_affine_quantized"
    " _empty_per_channel_affine_quantized _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor"
)
"""Operators that give quantized tensors, of which there are no fakes."""
