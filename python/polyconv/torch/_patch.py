"""patch(model): the convolutions of one model go to polyconv, whatever enable() says, and everybody else's stay PyTorch's.
A custom function of autograd stands in the place of each layer's convolution."""
# SPDX-License-Identifier: Apache-2.0

import functools

import torch

from . import _autocast, _dispatch, _run
from ._plans import Refused, module_of

_CONVS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_TRANSPOSED = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)


class Convolution(torch.autograd.Function):
    """aten::convolution by polyconv, differentiable twice."""

    @staticmethod
    def forward(ctx, x, w, bias, *settings):
        ctx.save_for_backward(x, w)
        ctx.settings = settings
        ctx.bias = None if bias is None else list(bias.shape)
        result = _run.forward(x, w, bias, *settings)
        if type(result) is Refused:
            _dispatch.fell("fwd")
            return torch.ops.aten.convolution.default(x, w, bias, *settings)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        mask = list(ctx.needs_input_grad[:3])
        settings = ctx.settings
        result = None
        if not torch.is_grad_enabled():
            result = _run.backward(grad, x, w, ctx.bias, *settings, mask)
            if type(result) is Refused:
                _dispatch.fell("bwd")
                result = None
        if result is None:  # gradients of gradients are PyTorch's to record
            result = torch.ops.aten.convolution_backward.default(grad, x, w, ctx.bias, *settings, mask)
        return (*result, *[None] * len(settings))


def _cast(x, w, bias):
    """What autocast would have made of the arguments."""
    dtype = _autocast.type_of(x)
    if dtype is None:
        return x, w, bias
    return x.to(dtype), w.to(dtype), None if bias is None else bias.to(dtype)


def _apply(layer, x, w, bias, padding, output_padding, transposed):
    spatial = w.dim() - 2
    batched = x if x.dim() == spatial + 2 else x.unsqueeze(0)
    settings = (list(layer.stride), list(padding), list(layer.dilation), transposed, list(output_padding), layer.groups)
    y = _autocast.infer(batched, w, bias, *settings)
    if y is None or type(y) is Refused:
        y = Convolution.apply(*_cast(batched, w, bias), *settings)
    return y if batched.dim() == x.dim() else y.squeeze(0)


# In the place of a layer's method stands a partial of one of these: it goes with the layer where that is copied or pickled, as a
# function that knows the layer by itself would not.
def _conv_forward(layer, x, weight, bias):
    """nn.Conv*d._conv_forward, which subclasses with a forward of their own call too."""
    padding, nothing = layer.padding, (0,) * (weight.dim() - 2)
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        x = torch.nn.functional.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
        padding = nothing
    return _apply(layer, x, weight, bias, padding, nothing, False)


def _transpose_forward(layer, x, output_size=None):
    spatial = layer.weight.dim() - 2
    extra = layer._output_padding(x, output_size, layer.stride, layer.padding, layer.kernel_size, spatial, layer.dilation)
    return _apply(layer, x, layer.weight, layer.bias, layer.padding, extra, True)


_METHODS = {"_conv_forward": _conv_forward, "forward": _transpose_forward}


def is_patched(layer):
    """Whether patch() was here."""
    return any(getattr(layer.__dict__.get(name), "func", None) is method for name, method in _METHODS.items())


def patch(model):
    """Sends the convolutions of one model to polyconv, forward and backward, and gives the model back. The layers and
    their parameters stay the same objects; unpatch(model) takes it back. Copies of the model are patched too. A transposed layer of
    a class that has a forward of its own stays PyTorch's."""
    for layer in module_of(model).modules():
        if isinstance(layer, _CONVS):
            layer._conv_forward = functools.partial(_conv_forward, layer)
        elif isinstance(layer, _TRANSPOSED) and type(layer).forward in [each.forward for each in _TRANSPOSED]:
            layer.forward = functools.partial(_transpose_forward, layer)
    return model


def unpatch(model):
    """The model's convolutions are PyTorch's again."""
    for layer in module_of(model).modules():
        for name, method in _METHODS.items():
            if getattr(layer.__dict__.get(name), "func", None) is method:
                del layer.__dict__[name]
    return model
