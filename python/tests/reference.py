"""Convolutions by plain NumPy, in double: what every result is held against. Slow, and free of anything of polyconv's."""
# SPDX-License-Identifier: Apache-2.0

import itertools

import numpy

_PAD = {"reflect": "reflect", "symmetric": "symmetric", "replicate": "edge", "circular": "wrap"}


def pairs(padding, axes):
    if isinstance(padding, int):
        padding = [padding] * axes
    return [one if isinstance(one, tuple) else (one, one) for one in padding]


def each(value, axes):
    return [value] * axes if isinstance(value, int) else list(value)


def padded(x, padding, mode="zero", value=0.0):
    axes = x.ndim - 2
    widths = [(0, 0), (0, 0)] + pairs(padding, axes)
    if mode in _PAD:
        return numpy.pad(x, widths, _PAD[mode])
    return numpy.pad(x, widths, constant_values=value if mode == "constant" else 0.0)


def conv(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, mode="zero", value=0.0):
    """N x C x spatial by K x C/g x kernel."""
    axes = x.ndim - 2
    stride, dilation = each(stride, axes), each(dilation, axes)
    x = padded(x.astype("float64"), padding, mode, value)
    w = w.astype("float64")
    sizes = [(x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(axes)]
    y = numpy.zeros([x.shape[0], w.shape[0], *sizes])
    inside, outside = w.shape[1], w.shape[0] // groups
    for tap in itertools.product(*map(range, w.shape[2:])):
        window = tuple(
            slice(tap[i] * dilation[i], tap[i] * dilation[i] + (sizes[i] - 1) * stride[i] + 1, stride[i]) for i in range(axes)
        )
        for g in range(groups):
            part = x[(slice(None), slice(g * inside, (g + 1) * inside), *window)]
            of_group = w[(slice(g * outside, (g + 1) * outside), slice(None), *tap)]
            y[:, g * outside : (g + 1) * outside] += numpy.einsum("nc...,kc->nk...", part, of_group)
    if bias is not None:
        y += bias.astype("float64").reshape(1, -1, *[1] * axes)
    return y


def grad_input(grad, w, shape, **settings):
    """The adjoint, an element at a time: slow and plain."""
    result = numpy.zeros(shape)
    for index in itertools.product(*map(range, shape)):
        one = numpy.zeros(shape)
        one[index] = 1
        result[index] = (conv(one, w, **settings) * grad).sum()
    return result


def grad_weight(x, grad, shape, **settings):
    result = numpy.zeros(shape)
    for index in itertools.product(*map(range, shape)):
        one = numpy.zeros(shape)
        one[index] = 1
        result[index] = (conv(x, one, **settings) * grad).sum()
    return result


def conv_transpose(x, w, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """By its definition: each element of x adds w, times itself, to the result."""
    axes = x.ndim - 2
    stride, dilation, extra = each(stride, axes), each(dilation, axes), each(output_padding, axes)
    pads = pairs(padding, axes)
    full = [(x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1 + extra[i] for i in range(axes)]
    y = numpy.zeros([x.shape[0], w.shape[1] * groups, *full])
    inside, outside = w.shape[0] // groups, w.shape[1]
    for tap in itertools.product(*map(range, w.shape[2:])):
        window = tuple(
            slice(tap[i] * dilation[i], tap[i] * dilation[i] + (x.shape[2 + i] - 1) * stride[i] + 1, stride[i])
            for i in range(axes)
        )
        for g in range(groups):
            part = x[:, g * inside : (g + 1) * inside].astype("float64")
            of_group = w[(slice(g * inside, (g + 1) * inside), slice(None), *tap)].astype("float64")
            place = (slice(None), slice(g * outside, (g + 1) * outside), *window)
            y[place] += numpy.einsum("nc...,ck->nk...", part, of_group)
    crop = tuple(slice(pads[i][0], full[i] - pads[i][1]) for i in range(axes))
    y = y[(slice(None), slice(None), *crop)]
    return y if bias is None else y + bias.astype("float64").reshape(1, -1, *[1] * axes)
