"""aten::convolution and aten::convolution_backward by polyconv: each function gives back results, or a Refused that says
why the call is PyTorch's. They run below autograd, on plain tensors."""
# SPDX-License-Identifier: Apache-2.0

import torch

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
    looked at, and whether they are packed in each call."""
    outputs = taken.problem.tensor(5)[1]
    several = tuple(size > 1 for size in outputs[2:])
    stride, _, dilation, transposed, _, groups = arguments
    taken.pack_key = _plans.pack_number(
        (taken.format, direction, tuple(w.shape), w.stride(), taken.dtype, stride, dilation, transposed, groups, several)
    )
    if device_index < 0:
        taken.span = taken.problem.tensor(1)[4] // w.element_size()
    elif taken.format != "raw":
        taken.packs_anew = new_weights or _kept.packs_anew(taken.plan.estimate_us, taken.plan.weights(0)[1])


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
        plan, made, not_invariant = _plans.plan(problem, device_index, x.dtype, FORWARD, new_weights)
    except Exception as error:  # PyTorch says it in its own words, or takes it
        return _plans.refuse(key, FORWARD, what, error)
    taken = Taken(plan, made, "fwd", shape, strides, x.dtype)
    taken.not_invariant = not_invariant
    take_weights(taken, w, arguments, FORWARD, device_index, new_weights)
    return _plans.keep(key, taken)


def bias_of(bias, device_index, stream):
    """The bias as kernels take it: dense, f32 beside half precision."""
    if bias is None:
        return None
    if bias.dtype in (torch.float16, torch.bfloat16):
        span = bias.numel() if device_index < 0 and bias.is_contiguous() else 0
        bias = _kept.cast(bias, torch.float32, span, device_index, stream)
    return bias if bias.is_contiguous() else bias.contiguous()


def launch(taken, x, w, bias, y, written, device_index, stream, residual=0, slope=0):
    """Runs a plan whose arrays are all there; w is cast and packed where the plan wants that. residual and slope are addresses."""
    pack = None
    if taken.format != "raw":
        pack = _kept.packed(taken, w, device_index, stream)
    elif w.dtype != taken.dtype:
        w = _kept.cast(w, taken.dtype, taken.span, device_index, stream)
    address, owner = 0, None
    if taken.workspace and device_index < 0:
        address, owner = _plans.cpu_workspace(taken.workspace)
    elif taken.workspace:  # of PyTorch's allocator, which knows streams and graphs, and aligns to 512 bytes
        owner = torch.empty(taken.workspace, dtype=torch.uint8, device=written.device)
        address = owner.data_ptr()
    taken.plan.run_layer(
        x.data_ptr(),
        w.data_ptr(),
        None if pack is None else pack.value,
        0 if bias is None else bias.data_ptr(),
        y.data_ptr(),
        address,
        stream,
        residual,
        slope,
    )
    taken.calls += 1
    del owner  # not before the run


def forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts=False):
    """aten::convolution. casts: w may be of another float type than x, and is kept in x's."""
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
    if taken.plan is None:
        if 0 in w.stride() and w.numel():  # weights that expand() made: the library wants them in memory
            dense = w.contiguous()
            return forward(x, dense, bias, stride, padding, dilation, transposed, output_padding, groups, casts)
        taken.calls += 1
        return taken
    on = _plans.stream_of(device_index)
    bias = bias_of(bias, device_index, on)
    y = taken.result_on(x.device)
    if w.is_leaf:  # no parameter else, but what autocast or something else made of one for this pass
        taken.note(w)
    launch(taken, x, w, bias, y, y, device_index, on)
    return y


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
    taken = Taken(plan, made, _plans.DIRECTIONS[direction], shape, strides, x.dtype)
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


def backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    """aten::convolution_backward: gradients of input, weights and bias, None where the mask wants none."""
    device_index = x.get_device() if x.is_cuda else -1
    key = (
        grad.shape,
        grad.stride(),
        grad.dtype,
        grad.get_device(),
        x.shape,
        x.stride(),
        x.dtype,
        w.shape,
        w.stride(),
        w.dtype,
        w.get_device(),
        w.requires_grad,
        device_index,
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        transposed,
        tuple(output_padding),
        groups,
        tuple(mask),
        switches(device_index),
    )
    plans = state.steps.get(key)  # one look for what two plans are found by
    if plans is None:
        if not (grad.device == x.device == w.device):
            return Refused("bwd", "", "tensors on two devices")
        if 0 in x.shape or 0 in w.shape or 0 in grad.shape:  # as in PyTorch, the gradient of the bias among it
            shapes = (x.shape, w.shape, bias_sizes if bias_sizes is not None else grad.shape[1:2])
            return tuple(x.new_zeros(tuple(shape)) if wanted else None for shape, wanted in zip(shapes, mask))
        if 0 in w.stride():
            dense = w.contiguous()
            return backward(grad, x, dense, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)
        arguments = _arguments(stride, padding, dilation, transposed, output_padding, groups, x.dim() - 2)
        plans = _gradients(grad, x, w, arguments, mask, device_index)
        if type(plans) is tuple:
            state.steps[key] = plans
    else:
        state.hits += (plans[0] is not None) + (plans[1] is not None)
    if type(plans) is not tuple:
        plans.calls += 1
        return plans
    return _run_gradients(plans, grad, x, w, mask, device_index)


def _run_gradients(plans, grad, x, w, mask, device_index):
    for_data, for_weights = plans
    is_leaf = w.is_leaf
    stream = _plans.stream_of(device_index)
    results = [None, None, None]
    bias = None
    if mask[2]:
        if for_weights is not None:
            accurate = torch.float64 if x.dtype == torch.float64 else torch.float32
            results[2] = bias = torch.empty(grad.shape[1], dtype=accurate, device=x.device)
        else:
            results[2] = grad.sum([0, *range(2, grad.dim())])
    if for_weights is not None:
        results[1] = made = for_weights.result_on(x.device)
        if is_leaf:
            for_weights.note(w)
        launch(for_weights, x, made, bias, grad, made, device_index, stream)
    if for_data is not None:
        results[0] = made = for_data.result_on(x.device)
        if is_leaf:
            for_data.note(w)
        launch(for_data, made, w, None, grad, made, device_index, stream)
    if results[2] is not None and results[2].dtype != x.dtype:
        results[2] = results[2].to(x.dtype)
    return tuple(results)
