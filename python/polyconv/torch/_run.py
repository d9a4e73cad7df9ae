"""aten::convolution and aten::convolution_backward by polyconv: forward() and backward() give back results, or a Refused that says why
the call is PyTorch's. They run below autograd, on plain tensors.

They are in python/src/torch/, which finds again what was decided here about a call that looked the same: a plan, and the
shape of what it writes."""
# SPDX-License-Identifier: Apache-2.0

import torch

from .. import _core
from . import _kept, _plans
from ._plans import BACKWARD_DATA, BACKWARD_WEIGHTS, FLOATS, FORWARD, Refused, Taken, state


def _arguments(stride, padding, dilation, transposed, output_padding, groups, spatial):
    """PyTorch's lists, which may have one number for all axes."""
    each = [tuple(values) for values in (stride, padding, dilation, output_padding)]
    if any(len(values) != spatial for values in each):
        each = [values * spatial if len(values) == 1 else values for values in each]
    return (each[0], each[1], each[2], bool(transposed), each[3], int(groups))


def what_of(x, w, arguments):
    stride, padding, dilation, transposed, _, groups = arguments
    kind = "conv_transpose" if transposed else "conv"
    return (
        f"{kind}{x.dim() - 2}d of {tuple(x.shape)} by {tuple(w.shape)}, stride {stride}, padding {padding}, dilation "
        f"{dilation}, groups {groups}, {str(x.dtype).split('.')[-1]}"
    )


def take_weights(taken, w, arguments, direction, device_index, new_weights=False):
    """Notes what plans must have alike to share packed weights (polyconv_weights_create), how much of the weights may be
    looked at, and whether they are cast and packed in each call."""
    outputs = taken.problem.tensor(5)[1]
    several = tuple(size > 1 for size in outputs[2:])
    stride, _, dilation, transposed, _, groups = arguments
    packed_format = taken.plan.weights(0)[0] if direction != BACKWARD_WEIGHTS else "raw"
    taken.pack_key = _plans.pack_number(
        (packed_format, direction, tuple(w.shape), w.stride(), taken.dtype, stride, dilation, transposed, groups, several)
    )
    if device_index < 0:
        taken.span = taken.problem.tensor(1)[4] // w.element_size()
    taken.makes_anew = _kept.makes_anew(taken, direction, device_index, new_weights)


def _decide_forward(key, x, w, bias, arguments, device_index, new_weights):
    what = what_of(x, w, arguments)
    try:
        if x.dtype not in FLOATS or w.dtype != x.dtype:
            return _plans.refuse(key, FORWARD, what, f"types {x.dtype} and {w.dtype}, expected one float type")
        if 0 in x.shape or 0 in w.shape:  # sums over nothing, to which PyTorch does not add the bias
            return _plans.refuse(key, FORWARD, what, "an empty tensor")
        if bias is not None and bias.dtype not in (x.dtype, torch.float32):
            return _plans.refuse(key, FORWARD, what, f"a bias of {bias.dtype}, expected {x.dtype}")
        channels = w.shape[1] * arguments[5] if arguments[3] else w.shape[0]
        if bias is not None and tuple(bias.shape) != (channels,):
            return _plans.refuse(key, FORWARD, what, f"a bias of shape {tuple(bias.shape)}, expected ({channels},)")
        number = FLOATS[x.dtype]
        inputs, weights = (tuple(x.shape), x.stride()), (tuple(w.shape), w.stride())
        problem = _plans.describe(FORWARD, inputs, weights, None, arguments, bias is not None)
        problem.update(input_type=number, weights_type=number, output_type=number)
        sizes = _plans._core.Problem(problem).tensor(5)[1]
        shape = sizes[:2] + sizes[5 - problem["spatial_dims"] :]
        strides = _plans.strides_for(shape, _plans.memory_format(x, w, arguments))
        _plans.place(problem, "output", shape, strides, False)
        plan, made, not_invariant = _plans.forward_plan(problem, device_index, x.dtype, new_weights)
    except Exception as error:  # PyTorch says it in its own words, or takes it
        return _plans.refuse(key, FORWARD, what, error)
    taken = Taken(plan, made, "fwd", shape, strides, x.dtype, x.device)
    taken.not_invariant = not_invariant
    take_weights(taken, w, arguments, FORWARD, device_index, new_weights)
    return _plans.keep(key, taken)


forward, backward = _core.torch_forward, _core.torch_backward
forward_itself, backward_itself = _core.torch_forward_itself, _core.torch_backward_itself  # though somebody watches (_dispatch.watched)


def decide_forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts):
    """What a call of aten::convolution becomes: Taken or Refused. casts: w may be of another float type than x, and is kept in x's."""
    device_index = x.get_device() if x.is_cuda else -1
    new_weights = _plans.trains(w, FORWARD, device_index)
    key = (
        x.shape,
        x.stride(),
        w.shape,
        w.stride(),
        x.dtype,
        w.dtype,
        None if bias is None else (bias.dtype, bias.shape, bias.get_device()),
        device_index,
        w.get_device(),
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        transposed,
        tuple(output_padding),
        groups,
        casts,
        new_weights,
        switches(device_index),
    )
    taken = _plans.find(key)
    if taken is None:
        if torch._C._get_tracing_state() is not None:  # shapes are part of the trace
            return Refused("fwd", "", "torch.jit is tracing")
        if w.device != x.device or (bias is not None and bias.device != x.device):
            return Refused("fwd", "", "tensors on two devices")
        arguments = _arguments(stride, padding, dilation, transposed, output_padding, groups, x.dim() - 2)
        raw = _kept.as_type(w, x.dtype) if casts else w
        taken = _decide_forward(key, x, raw, bias, arguments, device_index, new_weights)
    return taken


def not_taken(refused, x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts):
    """A call that was refused, unless it is only that expand() made the weights: the library wants them in memory."""
    if 0 in w.stride() and w.numel():
        return forward_itself(x, w.contiguous(), bias, stride, padding, dilation, transposed, output_padding, groups, casts)
    refused.calls += 1
    return refused


def switches(device_index):
    """What else decides about a plan: threads on the CPU, TF32 on CUDA, and what enable() was told."""
    if device_index < 0:
        return (torch.get_num_threads(), state.deterministic, state.math)
    return (state.math or torch._C._get_cudnn_allow_tf32(), state.deterministic)


def _decide_gradient(key, direction, grad, x, w, arguments, with_bias, device_index, new_weights):
    what = what_of(x, w, arguments)
    try:
        if x.dtype not in FLOATS or w.dtype != x.dtype or grad.dtype != x.dtype:
            types = f"{grad.dtype}, {x.dtype} and {w.dtype}"
            return _plans.refuse(key, direction, what, f"types {types}, expected one float type")
        number = FLOATS[x.dtype]
        memory = _plans.memory_format(x, w, arguments)
        written = x if direction == BACKWARD_DATA else w
        shape = tuple(written.shape)
        strides = _plans.strides_for(shape, memory)
        inputs = (shape, strides) if direction == BACKWARD_DATA else (tuple(x.shape), x.stride())
        weights = (shape, strides) if direction == BACKWARD_WEIGHTS else (tuple(w.shape), w.stride())
        output = (tuple(grad.shape), grad.stride())
        problem = _plans.describe(direction, inputs, weights, output, arguments, with_bias)
        problem.update(input_type=number, weights_type=number, output_type=number)
        expected = _plans._core.Problem(problem).tensor(5)[1]
        if tuple(grad.shape) != expected[:2] + expected[5 - problem["spatial_dims"] :]:
            return _plans.refuse(key, direction, what, f"a gradient of shape {tuple(grad.shape)}")
        plan, made, not_invariant = _plans.plan(problem, device_index, x.dtype, direction, new_weights)
    except Exception as error:
        return _plans.refuse(key, direction, what, error)
    taken = Taken(plan, made, _plans.DIRECTIONS[direction], shape, strides, x.dtype, x.device)
    taken.not_invariant = not_invariant
    if direction == BACKWARD_DATA:
        take_weights(taken, w, arguments, direction, device_index, new_weights)
    else:
        taken.format = "raw"
    return _plans.keep(key, taken)


def _gradient(direction, grad, x, w, arguments, with_bias, device_index):
    new_weights = _plans.trains(w, direction, device_index)
    key = (
        direction,
        grad.shape,
        grad.stride(),
        x.shape,
        x.stride(),
        w.shape,
        w.stride(),
        grad.dtype,
        x.dtype,
        w.dtype,
        device_index,
        arguments,
        with_bias,
        new_weights,
        switches(device_index),
    )
    taken = _plans.find(key)
    if taken is None:
        taken = _decide_gradient(key, direction, grad, x, w, arguments, with_bias, device_index, new_weights)
    return taken


def _gradients(grad, x, w, arguments, mask, device_index):
    """(plan of the data's gradient, of the weights'), None where the mask wants none, or a Refused."""
    wanted = (BACKWARD_DATA, mask[0], False), (BACKWARD_WEIGHTS, mask[1], bool(mask[1] and mask[2]))
    plans = []
    for direction, is_wanted, with_bias in wanted:
        taken = _gradient(direction, grad, x, w, arguments, with_bias, device_index) if is_wanted else None
        if taken is not None and taken.plan is None:
            return taken
        plans.append(taken)
    return tuple(plans)


def decide_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    """What a call of aten::convolution_backward becomes: Taken of the data's and of the weights' gradient, None where the mask wants
    none; or a Refused; or the three gradients, of a call that is no sort of its own."""
    device_index = x.get_device() if x.is_cuda else -1
    if not (grad.device == x.device == w.device):
        return Refused("bwd", "", "tensors on two devices")
    if 0 in x.shape or 0 in w.shape or 0 in grad.shape:  # as in PyTorch, the gradient of the bias among it
        shapes = (x.shape, w.shape, bias_sizes if bias_sizes is not None else grad.shape[1:2])
        return tuple(x.new_zeros(tuple(shape)) if wanted else None for shape, wanted in zip(shapes, mask))
    if 0 in w.stride():
        return backward_itself(grad, x, w.contiguous(), bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)
    arguments = _arguments(stride, padding, dilation, transposed, output_padding, groups, x.dim() - 2)
    plans = _gradients(grad, x, w, arguments, mask, device_index)
    if type(plans) is Refused:
        plans.calls += 1
    return plans


def sum_for_bias(grad):
    """The gradient of a bias alone."""
    return grad.sum([0, *range(2, grad.dim())])
