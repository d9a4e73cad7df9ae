"""Tensors on both sides of 2^31 elements, where 32 bits end: every plug-in that takes such a layer, in all three directions. Of a result that
large the first images, the last and those around 2^31 are compared with PyTorch's; gradients of weights with its sum over all images."""
# SPDX-License-Identifier: Apache-2.0

import functools
import gc

import torch

import polyconv
from checks import DEVICE, Skip, check, near

LIMITS = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
END = 1 << 31  # elements that 32 bits with a sign count


class Layer:
    """A layer whose larger tensor ends just below 2^31 elements, or just above."""

    def __init__(self, channels, filters, size, taps, groups=1, stride=1, dtype=torch.float16, last=True, math="strict"):
        self.shape, self.taps = (channels, *size), (filters, channels // groups, *taps)
        self.settings = {"stride": stride, "padding": tuple(each // 2 for each in taps), "groups": groups}
        self.dtype, self.last, self.math = dtype, last, math
        self.result = (filters, *((i + 2 * (t // 2) - t) // stride + 1 for i, t in zip(size, taps)))
        self.image = max(torch.Size(self.shape).numel(), torch.Size(self.result).numel())

    def __str__(self):
        size, taps = ("x".join(map(str, each)) for each in (self.shape[1:], self.taps[2:]))
        kind = f"{str(self.dtype).rsplit('.', maxsplit=1)[-1]} {'channels last' if self.last else 'channels first'}"
        return f"{self.shape[0]} to {self.result[0]} channels in {self.settings['groups']} groups, {taps} of {size}, {kind}, {self.math}"

    def batch(self, beyond):
        return END // self.image + 2 if beyond else (END - 1) // self.image

    def made(self, shape, scale=1.0):
        """Random numbers, in the layer's order of memory."""
        if not self.last:
            return torch.randn(shape, device=DEVICE, dtype=self.dtype) * scale
        order = [0, *range(2, len(shape)), 1]
        made = torch.randn([shape[i] for i in order], device=DEVICE, dtype=self.dtype) * scale
        return made.permute(0, len(shape) - 1, *range(1, len(shape) - 1))

    def weights(self):
        return self.made(self.taps, torch.Size(self.taps[1:]).numel() ** -0.5)

    def convolution(self, x, w):
        return getattr(torch.nn.functional, f"conv{len(self.shape) - 1}d")(x, w, **self.settings)

    def gradients(self, x, w, grad, wanted):
        """PyTorch's gradient of the input (0) or of the weights (1)."""
        axes, mask = len(self.shape) - 1, [wanted == 0, wanted == 1, False]
        pads, steps = self.settings["padding"], [self.settings["stride"]] * axes
        return torch.ops.aten.convolution_backward(grad, x, w, None, steps, pads, [1] * axes, False, [0] * axes, self.settings["groups"], mask)[wanted]


LAYERS = (
    Layer(64, 64, (56, 56), (3, 3)),
    Layer(64, 96, (56, 56), (3, 3), stride=2),
    Layer(64, 128, (28, 28), (1, 1)),
    Layer(128, 128, (28, 28), (3, 3), groups=128),
    Layer(128, 128, (28, 28), (3, 3), groups=16),
    Layer(3, 32, (112, 112), (3, 3), stride=2),
    Layer(50, 34, (28, 28), (3, 3)),
    Layer(32, 32, (8, 28, 28), (3, 3, 3), dtype=torch.bfloat16),
    Layer(64, 64, (56, 56), (3, 3), last=False),
    Layer(64, 64, (1000,), (5,), last=False),
    Layer(32, 32, (56, 56), (3, 3), dtype=torch.float32, last=False),
    Layer(64, 64, (28, 28), (1, 1), dtype=torch.float32),
    Layer(64, 64, (28, 28), (5, 5), groups=64, dtype=torch.float32, last=False),
    Layer(64, 64, (28, 28), (3, 3), dtype=torch.float32, math="tf32"),
    Layer(1, 1, (1024, 1024), (5, 5), dtype=torch.float32, last=False),
)


def images(layer, batch):
    """Runs of images to look at: the first, the last, and those around 2^31 elements of input and result."""
    ends = [END // torch.Size(each).numel() for each in (layer.shape, layer.result)]
    starts = {0, batch // 2, batch - 2, *(max(0, min(end - 1, batch - 2)) for end in ends)}
    return [slice(start, start + 2) for start in sorted(starts)]


def limit(layer):
    return 2e-3 if layer.math == "tf32" else LIMITS[layer.dtype]


def forward(layer, batch, kernel):
    x, w = layer.made((batch, *layer.shape)), layer.weights()
    y = polyconv.conv(x, w, **layer.settings, math=layer.math, kernel=kernel)
    return max(near(y[part].double(), layer.convolution(x[part].double(), w.double()), limit(layer)) for part in images(layer, batch))


def data(layer, batch, kernel):
    grad, w = layer.made((batch, *layer.result)), layer.weights()
    made = polyconv.grad_input(grad, w, (batch, *layer.shape), **layer.settings, math=layer.math, kernel=kernel)
    far = 0.0
    for part in images(layer, batch):
        exact = layer.gradients(made[part].double(), w.double(), grad[part].double(), 0)
        far = max(far, near(made[part].double(), exact, limit(layer)))
    return far


def weights(layer, batch, kernel):
    x, grad = layer.made((batch, *layer.shape)), layer.made((batch, *layer.result))
    made = polyconv.grad_weight(x, grad, layer.taps, **layer.settings, math=layer.math, kernel=kernel)
    exact, some = torch.zeros(layer.taps, device=DEVICE, dtype=torch.float64), max(1, batch // 64)
    for start in range(0, batch, some):
        parts = (x[start : start + some].float(), grad[start : start + some].float())
        exact += layer.gradients(parts[0], torch.empty(layer.taps, device=DEVICE), parts[1], 1)
    return near(made.double(), exact, 10 * limit(layer))


def freed():
    """What the check before kept is free for the next."""
    polyconv.cache_clear()
    gc.collect()
    torch.cuda.empty_cache()


def one(direction, layer, beyond, kernel):
    freed()
    if torch.cuda.mem_get_info()[0] < (60 << 30):
        raise Skip("needs 60 GiB of memory")
    batch = layer.batch(beyond)
    try:
        return f"{batch} images, differs by {direction(layer, batch, kernel):.1e}"
    except polyconv.Unsupported as none:
        raise Skip(f"{kernel} takes no such layer") from none


def run(*plug_ins):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for layer in LAYERS:
        for direction in (forward, data, weights):
            for beyond in (False, True):
                for kernel in plug_ins or (None,):
                    name = f"{direction.__name__} {'beyond' if beyond else 'below'} 2^31 elements, {layer}, {kernel or 'as chosen'}"
                    check(name, functools.partial(one, direction, layer, beyond, kernel))
    freed()
