"""A convolution of JAX as a problem of polyconv: what a call says, told once while a program is traced, and the plan that
tells how much scratch memory XLA must give. The handlers that XLA calls are in libpolyconv_xla.so (python/xla)."""
# SPDX-License-Identifier: Apache-2.0

import ctypes
import pathlib
from typing import NamedTuple

import jax
import numpy

from .. import _core
from .._layout import describe, dense_strides
from ..errors import Error, Unsupported
from ..names import DETERMINISM, FALLBACK, MATH, TYPES

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = range(3)
DIRECTIONS = ("fwd", "bwd_d", "bwd_w")
ALIGNMENT = 256  # POLYCONV_ALIGNMENT, which XLA's own arrays on the CPU do not have
_NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "s8", "uint8": "u8", "int32": "s32"}


class Call(NamedTuple):
    """Everything of a call that is no array, hashable: with it XLA's own convolution can be made too."""

    lhs_shape: tuple
    rhs_shape: tuple
    out_shape: tuple
    types: tuple  # of lhs, rhs and result, as NumPy names them
    window_strides: tuple
    padding: tuple  # (begin, end) an axis
    lhs_dilation: tuple
    rhs_dilation: tuple
    dimension_numbers: object  # jax.lax.ConvDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    precision: object
    preferred_element_type: object
    math: object
    determinism: str
    threads: int


class Planned(NamedTuple):
    """What a foreign call is made with."""

    token: str
    kernel: str
    scratch_bytes: int
    attributes: dict


class Refused(NamedTuple):
    """Why a call is XLA's."""

    reason: str


def _strides(shape, order):
    """Strides of the axes batch, channels, spatial... of a dense array whose axes lie as `order` says."""
    dense = dense_strides(list(shape), range(len(shape)))
    return [dense[axis] for axis in order]


def _sizes(shape, order):
    return [shape[axis] for axis in order]


def _transposed_weights(sizes, strides, groups):
    """Weights [K][C/g] of a convolution of a dilated input as [C][K/g] of a transposed one, of the same numbers; None where
    no strides say that."""
    outputs, inputs = sizes[0] // groups, sizes[1]
    if groups == 1:
        return [inputs, outputs, *sizes[2:]], [strides[1], strides[0], *strides[2:]]
    if inputs == 1:
        return [groups, outputs, *sizes[2:]], [strides[0] * outputs, strides[0], *strides[2:]]
    return None


def problem_of(call, direction):
    """A problem's fields; raises Unsupported for what polyconv has no word for."""
    lhs_order, rhs_order, out_order = call.dimension_numbers
    spatial = len(call.lhs_shape) - 2
    if not 1 <= spatial <= 3:
        raise Unsupported(f"{spatial} spatial axes, expected 1 to 3")
    if call.batch_group_count != 1:
        raise Unsupported(f"batch_group_count is {call.batch_group_count}, expected 1")
    unknown = [name for name in call.types if name not in _NAMES]
    if unknown:
        raise Unsupported(f"type {unknown[0]}, expected one of {', '.join(_NAMES)}")
    transposed = any(step != 1 for step in call.lhs_dilation)
    if transposed and any(step != 1 for step in call.window_strides):
        raise Unsupported(f"window_strides {call.window_strides} beside lhs_dilation {call.lhs_dilation}, expected one of them")
    groups = call.feature_group_count
    inputs, weights = _sizes(call.lhs_shape, lhs_order), _sizes(call.rhs_shape, rhs_order)
    steps = _strides(call.rhs_shape, rhs_order)
    problem = dict(
        direction=direction,
        spatial_dims=spatial,
        batch=inputs[0],
        in_channels=inputs[1],
        out_channels=weights[0],
        groups=groups,
        input_size=inputs[2:],
        kernel_size=weights[2:],
        stride=call.window_strides,
        dilation=call.rhs_dilation,
        pad_begin=[begin for begin, _ in call.padding],
        pad_end=[end for _, end in call.padding],
    )
    if transposed:
        found = _transposed_weights(weights, steps, groups)
        if found is None:
            raise Unsupported(f"lhs_dilation {call.lhs_dilation} with {groups} groups of several channels")
        reach = [step * (size - 1) for step, size in zip(call.rhs_dilation, weights[2:])]
        weights, steps = found
        problem.update(
            transposed=1,
            flip=1,
            stride=call.lhs_dilation,
            pad_begin=[far - begin for far, (begin, _) in zip(reach, call.padding)],
            pad_end=[far - end for far, (_, end) in zip(reach, call.padding)],
        )
    for field, name in zip(("input_type", "weights_type", "output_type"), call.types):
        problem[field] = TYPES[_NAMES[name]]
    describe(problem, "input", inputs, _strides(call.lhs_shape, lhs_order), False)
    describe(problem, "weights", weights, steps, problem.get("input_layout") == 1)
    describe(problem, "output", _sizes(call.out_shape, out_order), _strides(call.out_shape, out_order), False)
    return problem


def _math(call, platform):
    """The math mode of f32 products: what the caller says, else what JAX's precision means on the platform."""
    if call.types[0] != "float32":
        return "strict"
    if call.math is not None:
        return call.math
    if platform == "cpu":
        return "strict"
    precision = call.precision[0] if isinstance(call.precision, tuple) else call.precision
    name = str(getattr(precision, "name", precision) or jax.config.jax_default_matmul_precision or "default").lower()
    return {"highest": "strict", "float32": "strict", "high": "fp32_emulated"}.get(name, "tf32")


_decided = {}  # (call, direction, platform): Planned or Refused, and how often it was traced


def decide(call, direction, platform):
    """Whether polyconv takes a call on a platform ('cpu' or 'cuda'), and how."""
    key = (call, direction, platform, _math(call, platform))
    known = _decided.get(key)
    if known is None:
        known = _decided[key] = [_decide(call, direction, platform), 0]
    known[1] += 1
    return known[0]


def decided():
    return [(key[1], key[2], call[0], call[1], key[0]) for key, call in list(_decided.items())]


def forget():
    _decided.clear()


def _decide(call, direction, platform):
    try:
        library()
        problem = _core.Problem(problem_of(call, direction))
        math = _math(call, platform)
        if direction == BACKWARD_WEIGHTS and call.determinism == "invariant":
            raise Unsupported("gradients of weights sum over the batch, expected determinism='run'")
        options = dict(
            math=MATH[math], determinism=DETERMINISM[call.determinism], threads=call.threads, fallback=FALLBACK["error"]
        )
        options["new_weights"] = direction != BACKWARD_WEIGHTS
        plan = _core.Plan(platform, [problem], options)
    except Error as error:
        return Refused(str(error))
    packed = 0
    if direction != BACKWARD_WEIGHTS and plan.weights(0)[0] != "raw":
        packed = -(-plan.weights(0)[1] // ALIGNMENT) * ALIGNMENT
    need = packed + plan.workspace_bytes
    attributes = dict(
        token=problem.token(),
        math=numpy.int32(options["math"]),
        determinism=numpy.int32(options["determinism"]),
        threads=numpy.int32(call.threads),
    )
    return Planned(problem.token(), plan.kernel, need + ALIGNMENT if need else 0, attributes)


_library = None


def library():
    """The handlers, registered with XLA once; raises Unsupported where this package has none."""
    global _library
    if _library is not None:
        return _library
    path = pathlib.Path(_core.__file__).parent / "lib" / "libpolyconv_xla.so"
    if not path.exists():
        raise Unsupported(f"{path} is missing: this package was built without jaxlib, expected one built beside it")
    found = ctypes.CDLL(str(path))
    jax.ffi.register_ffi_target("polyconv_cpu", jax.ffi.pycapsule(found.polyconv_xla_cpu), platform="cpu")
    if any(device[0].startswith("cuda") for device in _core.devices()):
        jax.ffi.register_ffi_target("polyconv_cuda", jax.ffi.pycapsule(found.polyconv_xla_cuda), platform="CUDA")
    _library = found
    return found


def platforms():
    """Where a traced program may run on polyconv: the CPU, and CUDA where both JAX and polyconv have it."""
    found = ["cpu"]
    if jax.default_backend() != "cpu" and any(device[0].startswith("cuda") for device in _core.devices()):
        found.append("cuda")
    return found
