"""conv_general_dilated: forward, and both gradients, each of which is again one of the three, so that gradients of any
order are polyconv's. Each is a foreign call to polyconv where it takes the call, and jax.lax where it does not."""
# SPDX-License-Identifier: Apache-2.0

import functools

import jax
import numpy
from jax import lax

from ..errors import InvalidArgument
from ..names import DETERMINISM, MATH
from ._call import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Call, Refused, decide, platforms


def _by_lax(call):
    """JAX's own convolution of the same call."""

    def conv(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            call.window_strides,
            call.padding,
            lhs_dilation=call.lhs_dilation,
            rhs_dilation=call.rhs_dilation,
            dimension_numbers=call.dimension_numbers,
            feature_group_count=call.feature_group_count,
            batch_group_count=call.batch_group_count,
            precision=call.precision,
            preferred_element_type=call.preferred_element_type,
        )

    return conv


def _lax_direction(direction, call):
    """The same direction by jax.lax: convolutions are linear in either array."""
    conv = _by_lax(call)
    lhs = jax.ShapeDtypeStruct(call.lhs_shape, call.types[0])
    rhs = jax.ShapeDtypeStruct(call.rhs_shape, call.types[1])
    if direction == FORWARD:
        return conv
    if direction == BACKWARD_DATA:
        return lambda grad, w: jax.linear_transpose(lambda x: conv(x, w), lhs)(grad)[0]
    return lambda x, grad: jax.linear_transpose(lambda w: conv(x, w), rhs)(grad)[0]


def _foreign(target, planned, shape, dtype):
    def call(a, b):
        results = (jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((planned.scratch_bytes,), numpy.uint8))
        return jax.ffi.ffi_call(target, results, vmap_method="sequential")(a, b, **planned.attributes)[0]

    return call


@functools.partial(jax.jit, static_argnums=(0, 3))
def _run(direction, a, b, call):
    """One direction: (x, w), (grad, w) or (x, grad)."""
    result = {
        FORWARD: (call.out_shape, call.types[2]),
        BACKWARD_DATA: (call.lhs_shape, call.types[0]),
        BACKWARD_WEIGHTS: (call.rhs_shape, call.types[1]),
    }[direction]
    branches = {}
    for platform in platforms():
        decision = decide(call, direction, platform)
        if isinstance(decision, Refused):
            branches[platform] = _lax_direction(direction, call)
        else:
            branches[platform] = _foreign(f"polyconv_{platform}", decision, *result)
    if len(branches) == 1 and jax.default_backend() == "cpu":
        return branches["cpu"](a, b)
    return lax.platform_dependent(a, b, default=_lax_direction(direction, call), **branches)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _forward(x, w, call):
    return _run(FORWARD, x, w, call)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _input_gradient(grad, w, call):
    return _run(BACKWARD_DATA, grad, w, call)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _weight_gradient(x, grad, call):
    return _run(BACKWARD_WEIGHTS, x, grad, call)


def _keep(function):
    return lambda a, b, call: (function(a, b, call), (a, b))


# All three are the same trilinear form <grad, conv(x, w)> with one of its arguments left open.
_forward.defvjp(
    _keep(_forward),
    lambda call, kept, grad: (_input_gradient(grad, kept[1], call), _weight_gradient(kept[0], grad, call)),
)
_input_gradient.defvjp(
    _keep(_input_gradient),
    lambda call, kept, x: (_forward(x, kept[1], call), _weight_gradient(x, kept[0], call)),
)
_weight_gradient.defvjp(
    _keep(_weight_gradient),
    lambda call, kept, w: (_input_gradient(kept[1], w, call), _forward(kept[0], w, call)),
)


def _pads(padding, lhs, rhs, window_strides, rhs_dilation, numbers):
    if not isinstance(padding, str):
        return tuple((int(begin), int(end)) for begin, end in padding)
    sizes = [lhs.shape[axis] for axis in numbers.lhs_spec[2:]]
    kernel = [rhs.shape[axis] for axis in numbers.rhs_spec[2:]]
    reach = [(size - 1) * step + 1 if size else 0 for size, step in zip(kernel, rhs_dilation)]
    return tuple((int(begin), int(end)) for begin, end in lax.padtype_to_pads(sizes, reach, window_strides, padding))


def conv_general_dilated(
    lhs,
    rhs,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    feature_group_count=1,
    batch_group_count=1,
    precision=None,
    preferred_element_type=None,
    *,
    math=None,
    determinism="run",
    threads=0,
):
    """jax.lax.conv_general_dilated on polyconv: the same arguments, the same result, under jit, grad (of any order) and vmap
    (one call for each element), on the CPU, and on CUDA where polyconv has its plug-ins. What polyconv does not take, or
    would only take by a fallback kernel, runs by jax.lax, and report() tells. Forward-mode derivatives (jvp) are JAX's
    to refuse: a custom_vjp has none.

    math          'strict', 'fp32_emulated', 'tf32' or 'fast' for f32; None follows JAX: `precision`, else
                  jax_default_matmul_precision: 'highest' is strict, 'high' is fp32_emulated, anything else TF32 on CUDA;
                  the CPU is strict
    determinism   'run', or 'invariant': results do not depend on the batch
    threads       CPU threads; 0: as many as the process may use

    Weights that a kernel can't read raw are packed in each call, on the device, in memory of XLA's."""
    if math is not None and math not in MATH:
        raise InvalidArgument(f"math is {math!r}, expected None or one of {', '.join(MATH)}")
    if determinism not in DETERMINISM:
        raise InvalidArgument(f"determinism is {determinism!r}, expected one of {', '.join(DETERMINISM)}")
    if isinstance(threads, bool) or not isinstance(threads, int) or not 0 <= threads <= 1024:
        raise InvalidArgument(f"threads is {threads!r}, expected a whole number from 0 to 1024")
    lhs, rhs = jax.numpy.asarray(lhs), jax.numpy.asarray(rhs)

    def own(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision,
            preferred_element_type,
        )

    result = jax.eval_shape(own, lhs, rhs)  # JAX's own sentences about bad arguments, and its own shape and type
    if result.dtype in (jax.numpy.int8, jax.numpy.uint8):  # whose sums JAX lets overflow, and the library saturates
        sums = conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision,
            jax.numpy.int32,
            math=math,
            determinism=determinism,
            threads=threads,
        )
        return sums.astype(result.dtype)
    axes = lhs.ndim - 2
    numbers = dimension_numbers
    if not isinstance(numbers, lax.ConvDimensionNumbers):
        numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    strides = tuple(map(int, window_strides))
    dilation = tuple(map(int, rhs_dilation or (1,) * axes))
    call = Call(
        tuple(lhs.shape),
        tuple(rhs.shape),
        tuple(result.shape),
        (lhs.dtype.name, rhs.dtype.name, result.dtype.name),
        strides,
        _pads(padding, lhs, rhs, strides, dilation, numbers),
        tuple(map(int, lhs_dilation or (1,) * axes)),
        dilation,
        numbers,
        int(feature_group_count),
        int(batch_group_count),
        tuple(precision) if isinstance(precision, list) else precision,
        preferred_element_type,
        math,
        determinism,
        threads,
    )
    return _forward(lhs, rhs, call)
