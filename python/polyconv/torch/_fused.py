"""FusedConv: a convolution with the batch norm, the added residual and the activation behind it, run as one plan. fuse()
puts it in the place of a layer."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

import torch

from .. import _core
from ..names import ACTIVATIONS, pad_mode
from . import _autocast, _dispatch, _kept, _plans, _run
from ._plans import FLOATS, FORWARD, Refused, Taken

_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)


F = torch.nn.functional
# How PyTorch computes the library's activations, by their names there; `alpha` is the library's number.
_BY_PYTORCH = {
    "none": lambda x, alpha: x,
    "relu": lambda x, alpha: F.relu(x),
    "clipped_relu": lambda x, alpha: F.hardtanh(x, 0.0, alpha),
    "leaky_relu": F.leaky_relu,
    "tanh": lambda x, alpha: torch.tanh(x),
    "sigmoid": lambda x, alpha: torch.sigmoid(x),
    "gelu": lambda x, alpha: F.gelu(x),
    "silu": lambda x, alpha: F.silu(x),
    "hard_swish": lambda x, alpha: F.hardswish(x),
    "elu": F.elu,
    "gelu_tanh": lambda x, alpha: F.gelu(x, approximate="tanh"),
}
_NAMES = {number: name for name, number in ACTIVATIONS.items()}


class Activation(NamedTuple):
    """An activation as the library has it: its number there and alpha, and of a PReLU the parameter, one number or one a channel."""

    number: int = 0
    alpha: float = 0.0
    slope: object = None


class FusedConv(torch.nn.Module):
    """What fuse() made of a convolution and what follows it. Its weights are constants, with the batch norm multiplied
    in: no gradient is kept for them. Where x wants a gradient, or the call is not polyconv's to take, the same is
    computed by PyTorch's operators one by one."""

    def __init__(self, conv, weight, bias, activation, parts):
        super().__init__()
        spatial = weight.dim() - 2
        transposed = isinstance(conv, torch.nn.modules.conv._ConvTransposeNd)
        self.weight = torch.nn.Parameter(weight.detach(), requires_grad=False)
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)
        self.slope = None
        if activation.slope is not None:
            accurate = torch.float64 if weight.dtype == torch.float64 else torch.float32
            channels = weight.shape[1] * conv.groups if transposed else weight.shape[0]
            slope = activation.slope.detach().to(accurate).expand(channels).clone()
            self.slope = torch.nn.Parameter(slope, requires_grad=False)
        self.activation = activation._replace(slope=None)
        self.parts = parts
        self.mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
        # PyTorch's own order of padding, last axis first, made of 'same' and of padding modes.
        reversed_pads = list(getattr(conv, "_reversed_padding_repeated_twice", ()))
        if transposed or (self.mode == "constant" and not isinstance(conv.padding, str)):
            reversed_pads = [pad for pad in reversed(conv.padding) for _ in range(2)]
        self.reversed_pads = reversed_pads
        self.begin = tuple(reversed_pads[-2::-2])
        self.end = tuple(reversed_pads[-1::-2])
        even = self.mode == "constant" and self.begin == self.end
        padding = self.begin if even else (0,) * spatial  # that PyTorch's operator makes
        self.pads_first = not even
        self.arguments = (
            tuple(conv.stride),
            padding,
            tuple(conv.dilation),
            transposed,
            tuple(conv.output_padding) if transposed else (0,) * spatial,
            conv.groups,
        )
        self.sort = (self.arguments, self.begin, self.end, self.mode, activation.number, activation.alpha)

    def extra_repr(self):
        return self.parts

    def forward(self, x, residual=None):
        gradient = torch.is_grad_enabled() and (x.requires_grad or getattr(residual, "requires_grad", False))
        if not gradient and not _compiling() and torch._C._get_tracing_state() is None:
            result = forward(self, x, residual)
            if type(result) is not Refused:
                return result
            _dispatch.fell("fwd")
        return self.one_by_one(x, residual)

    def one_by_one(self, x, residual):
        """The same by PyTorch's operators, which enable() may send to polyconv one by one."""
        spatial = self.weight.dim() - 2
        batched = x if x.dim() == spatial + 2 else x.unsqueeze(0)
        if self.pads_first:
            batched = torch.nn.functional.pad(batched, self.reversed_pads, mode=self.mode)
        stride, padding, dilation, transposed, output_padding, groups = self.arguments
        weight = self.weight
        bias = None if self.bias is None else self.bias.to(weight.dtype)
        if _autocast.type_of(x) is None and x.dtype != weight.dtype:
            raise TypeError(f"x is {x.dtype}, expected {weight.dtype}, the type of the fused weights")
        y = torch.convolution(batched, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        if batched.dim() != x.dim():
            y = y.squeeze(0)
        if residual is not None:
            y = y + residual
        if self.slope is not None:
            return torch.nn.functional.prelu(y, self.slope.to(y.dtype))
        return _BY_PYTORCH[_NAMES[self.activation.number]](y, self.activation.alpha)


def _decide(key, layer, x, w, bias, residual, device_index):
    what = f"{_run.what_of(x, w, layer.arguments)} ({layer.parts})"
    try:
        if x.dtype not in FLOATS or w.dtype != x.dtype:
            return _plans.refuse(key, FORWARD, what, f"types {x.dtype} and {w.dtype}, expected one float type")
        problem = _plans.describe(FORWARD, (tuple(x.shape), x.stride()), (tuple(w.shape), w.stride()), None, layer.arguments, bias is not None)
        number = FLOATS[x.dtype]
        problem.update(input_type=number, weights_type=number, output_type=number)
        problem.update(pad_begin=layer.begin, pad_end=layer.end, pad_mode=pad_mode("zero" if layer.mode == "constant" else layer.mode))
        problem.update(activation=layer.activation.number, activation_alpha=layer.activation.alpha)
        sizes = _core.Problem(problem).tensor(5)[1]
        shape = sizes[:2] + sizes[5 - problem["spatial_dims"] :]
        strides = _plans.strides_for(shape, _plans.memory_format(x, w, layer.arguments))
        if residual is not None:
            if tuple(residual.shape) != shape or residual.dtype != x.dtype or residual.device != x.device:
                have = f"{tuple(residual.shape)} of {residual.dtype} on {residual.device}"
                return _plans.refuse(key, FORWARD, what, f"a residual {have}, expected {shape} of {x.dtype} on {x.device}")
            problem["residual_from"] = 1
            for memory in _plans.memory_formats(residual.dim()):  # the result lies as the residual does
                if _plans.same_place(shape, residual.stride(), _plans.strides_for(shape, memory)):
                    strides = _plans.strides_for(shape, memory)
                    break
            else:
                return _plans.refuse(key, FORWARD, what, f"a residual of strides {residual.stride()}, expected a dense one")
        _plans.place(problem, "output", shape, strides, False)
        plan, made, not_invariant = _plans.plan(problem, device_index, x.dtype, FORWARD)
    except Exception as error:  # PyTorch says it in its own words, or takes it
        return _plans.refuse(key, FORWARD, what, error)
    taken = Taken(plan, made, "fwd", shape, strides, x.dtype, x.device)
    taken.not_invariant = not_invariant
    _run.take_weights(taken, w, layer.arguments, FORWARD, device_index)
    return _plans.keep(key, taken)


def forward(layer, x, residual):
    """One fused layer by polyconv, or a Refused that says why not."""
    if residual is not None and not isinstance(residual, torch.Tensor):
        return Refused("fwd", "", "a residual that is no tensor")
    spatial = layer.weight.dim() - 2
    if x.dim() == spatial + 1:
        y = forward(layer, x.unsqueeze(0), None if residual is None else residual.unsqueeze(0))
        return y if type(y) is Refused else y.squeeze(0)
    if x.device != layer.weight.device:
        return Refused("fwd", "", "tensors on two devices")
    device_index = x.get_device() if x.is_cuda else -1
    dtype = _autocast.type_of(x)
    if dtype is not None and x.dtype != dtype:
        x = x.to(dtype)
    w, bias = layer.weight, layer.bias
    key = (
        layer.sort,
        x.shape,
        x.stride(),
        w.shape,
        w.stride(),
        x.dtype,
        w.dtype,
        dtype,
        None if bias is None else bias.dtype,
        None if residual is None else (residual.shape, residual.stride(), residual.dtype, residual.device),
        device_index,
        _run.switches(device_index),
    )
    taken = _plans.find(key)
    if taken is None:
        taken = _decide(key, layer, x, w if dtype is None else _kept.as_type(w, dtype), bias, residual, device_index)
    if taken.plan is None:
        taken.calls += 1
        return taken
    accurate = torch.float64 if x.dtype == torch.float64 else torch.float32
    if bias is not None and bias.dtype != accurate and bias.dtype not in (torch.float16, torch.bfloat16):
        bias = bias.to(accurate)
    slope = layer.slope
    if slope is not None and slope.dtype != accurate:
        slope = slope.to(accurate)
    taken.parts[layer.parts] = True
    addresses = [0 if each is None else each.data_ptr() for each in (residual, slope)]
    return _core.torch_fused(taken, x, w, bias, *addresses)
