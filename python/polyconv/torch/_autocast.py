"""Convolutions under autocast, taken before autocast casts their weights: it does so anew in each of its contexts, and what is
packed of such a copy goes with it. Here the parameter itself arrives, and what is made of it is kept with it (_kept.py).

Only calls that record no gradient are taken so; others go on as PyTorch has it."""
# SPDX-License-Identifier: Apache-2.0

import torch

from .. import _core
from . import _run
from ._plans import Refused

_aten = torch.ops.aten
PLAIN = (torch.Tensor, torch.nn.Parameter)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


if hasattr(torch, "get_autocast_dtype"):
    type_on = torch.get_autocast_dtype

    def type_of(x):
        """The type that autocast computes convolutions of x in; None where it has no say."""
        kind = "cuda" if x.is_cuda else x.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) and x.dtype != torch.float64 else None

else:

    def type_on(kind):
        """The type that autocast computes in on a kind of device."""
        return torch.get_autocast_gpu_dtype() if kind == "cuda" else torch.get_autocast_cpu_dtype()

    def type_of(x):
        """The same before PyTorch 2.4."""
        if x.is_cuda:
            on, dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
        else:
            on, dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
        return dtype if on and x.dtype != torch.float64 else None


def _traced():
    """Whether somebody traces or transforms what runs."""
    return (
        torch._C._get_tracing_state() is not None
        or (modes is not None and modes() != 0)
        or (transforms is not None and transforms() is not None)
    )


def _seen(tensor):
    """Whether this is a tensor with memory, of a type that autocast casts."""
    return type(tensor) in PLAIN and tensor.dtype in _FLOATS


def _records(x, w, bias):
    """Whether autograd records a convolution."""
    return torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad))


def infer(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution in the type that autocast says, where it has a say, or a Refused; None where gradients are recorded, or something
    else is not as in plain inference. x has a batch."""
    if _records(x, w, bias):
        return None
    if not (_seen(x) and _seen(w) and (bias is None or _seen(bias))) or _traced():
        return None
    dtype = type_of(x)
    if dtype is not None and x.dtype != dtype:
        x = x.to(dtype)
    return _run.forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts=dtype is not None)


def _cast_on_cpu(*tensors):
    """Tensors as autocast has them. On CUDA it has a kernel of aten::convolution too, which is not overridden, and casts each of
    a context's weights once; on the CPU it has none."""
    if tensors[0].is_cuda:
        return tensors
    dtype = type_of(tensors[0])
    return [each if dtype is None or each is None or each.dtype not in _FLOATS else each.to(dtype) for each in tensors]


class _Override:
    """One of PyTorch's functions, as it is to be under autocast. `left` takes calls that polyconv refused."""

    def __init__(self, op, dims, left):
        self.op, self.dims, self.left = op, dims, left
        self.zeros = (0,) * dims

    def each(self, values):
        values = (values,) if isinstance(values, int) else tuple(values)
        return values if len(values) == self.dims else values * self.dims if len(values) == 1 else values

    def in_its_words(self, x, *arguments):
        """What is an error, raised by PyTorch itself."""
        with torch.autocast(x.device.type, enabled=False):
            return self.op(x, *arguments)

    def conv(self, x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        stride, padding, dilation = self.each(stride), self.each(padding), self.each(dilation)
        if x.is_cuda and x.dim() == w.dim() == self.dims + 2 and _records(x, w, bias):  # soon on to autocast's own kernel
            return torch.convolution(x, w, bias, stride, padding, dilation, False, self.zeros, groups)
        return self.take(x, w, bias, (stride, padding, dilation, False, self.zeros, groups), (stride, padding, dilation, groups))

    def padded(self, x, w, bias=None, stride=1, padding="valid", dilation=1, groups=1):
        stride, dilation = map(self.each, (stride, dilation))
        given = (stride, padding, dilation, groups)
        if padding not in ("same", "valid") or w.dim() != self.dims + 2 or (padding == "same" and any(one != 1 for one in stride)):
            return self.in_its_words(x, w, bias, *given)
        totals = [step * (taps - 1) if padding == "same" else 0 for step, taps in zip(dilation, w.shape[2:])]
        if any(total % 2 for total in totals):  # more at the end, as PyTorch pads it
            x = torch.nn.functional.pad(x, [pad for total in reversed(totals) for pad in (0, total % 2)])
        settings = (stride, [total // 2 for total in totals], dilation, False, self.zeros, groups)
        return self.take(x, w, bias, settings, given)

    def transposed(self, x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        stride, padding, output_padding, dilation = map(self.each, (stride, padding, output_padding, dilation))
        settings = (stride, padding, dilation, True, output_padding, groups)
        return self.take(x, w, bias, settings, (stride, padding, output_padding, groups, dilation))

    def take(self, x, w, bias, settings, given):
        """`settings` in the order of aten::convolution, `given` in the function's own."""
        axes = x.dim()
        if axes not in (self.dims + 1, self.dims + 2) or w.dim() != self.dims + 2:
            return self.in_its_words(x, w, bias, *given)
        batched = x if axes == self.dims + 2 else x.unsqueeze(0)
        result = infer(batched, w, bias, *settings)
        if result is None:
            result = torch.convolution(*_cast_on_cpu(batched, w, bias), *settings)
        elif type(result) is Refused:
            result = self.left(batched, w, bias, *settings)
        return result if axes == self.dims + 2 else result.squeeze(0)


def register(library, device_key, left):
    """Overrides what autocast does with convolutions on a device, 'CPU' or 'CUDA'."""
    key = "Autocast" + device_key
    for dims in (1, 2, 3):
        conv, transpose = getattr(_aten, f"conv{dims}d"), getattr(_aten, f"conv_transpose{dims}d")
        overload = "default" if dims == 1 else "input"
        quick = _core.torch_autocast(dims, _Override(conv.default, dims, left).conv, left)
        library.impl(conv.default, quick, key)
        library.impl(conv.padding, _Override(conv.padding, dims, left).padded, key)
        transpose = getattr(transpose, overload)
        library.impl(transpose, _Override(transpose, dims, left).transposed, key)
