"""Training: weights that are new in every step, read raw where kernels can, packed in each call where they can't. Each layer's result and
gradients beside f64, of weights that a kernel directly ahead writes, from places that no tensor map takes too."""
# SPDX-License-Identifier: Apache-2.0

import copy

import torch

import polyconv.torch as face
from checks import DEVICE, check, near

# Batch, input channels, filters, image, window, stride, groups, as ResNet-50, MobileNetV3 and detectors have them, and odd ones. Volumes are
# those with an eighth number.
LAYERS = (
    (8, 64, 64, 56, 1, 1, 1),
    (8, 64, 256, 56, 1, 1, 1),
    (8, 256, 64, 56, 1, 1, 1),
    (4, 64, 64, 56, 3, 1, 1),
    (4, 128, 128, 56, 3, 2, 1),
    (8, 256, 512, 56, 1, 2, 1),
    (8, 256, 256, 14, 3, 1, 1),
    (8, 512, 512, 14, 3, 2, 1),
    (8, 1024, 2048, 14, 1, 2, 1),
    (8, 2048, 512, 7, 1, 1, 1),
    (8, 512, 512, 7, 3, 1, 1),
    (8, 512, 512, 28, 3, 1, 1),
    (4, 3, 64, 112, 7, 2, 1),
    (8, 16, 64, 56, 1, 1, 1),
    (8, 24, 72, 28, 1, 1, 1),
    (8, 40, 120, 28, 1, 1, 1),
    (8, 72, 40, 28, 1, 1, 1),
    (8, 160, 960, 7, 1, 1, 1),
    (8, 40, 24, 28, 3, 1, 1),
    (8, 96, 72, 29, 3, 2, 1),
    (8, 36, 20, 27, 3, 1, 1),
    (8, 120, 120, 28, 5, 1, 120),
    (4, 128, 128, 28, 3, 1, 4),
    (4, 128, 128, 28, 3, 1, 2),
    (2, 256, 144, 20, 1, 1, 1),
    (2, 32, 64, 16, 3, 1, 1, 3),
    (2, 64, 64, 12, 3, 1, 1, 3),
    (2, 128, 64, 12, 3, 1, 1, 3),
    (2, 64, 128, 12, 3, 2, 1, 3),
    (2, 128, 64, 10, 1, 1, 1, 3),
)


def dims_of(layer):
    return layer[7] if len(layer) > 7 else 2


def convolve(x, w, layer):
    function = torch.nn.functional.conv3d if dims_of(layer) == 3 else torch.nn.functional.conv2d
    return function(x, w, None, layer[5], layer[4] // 2, 1, layer[6])


def tensors(layer, dtype, last):
    """Input, weights in f32 and the gradient of the result, in a memory format."""
    batch, channels, filters, size, window, stride, groups = layer[:7]
    dims = dims_of(layer)
    format = (torch.channels_last_3d if dims == 3 else torch.channels_last) if last else torch.contiguous_format
    generator = torch.Generator(DEVICE).manual_seed(7)

    def random(*shape, scale=1.0):
        return (torch.randn(*shape, device=DEVICE, generator=generator) * scale).contiguous(memory_format=format)

    out = (size + 2 * (window // 2) - window) // stride + 1
    weights = random(filters, channels // groups, *[window] * dims, scale=(channels // groups * window**dims) ** -0.5)
    return random(batch, channels, *[size] * dims).to(dtype), weights, random(batch, filters, *[out] * dims).to(dtype)


def step(x, w, gradient, layer):
    """Result and gradients. The weights leave a kernel of their own directly ahead of the convolution, as autocast's do."""
    x = x.detach().requires_grad_()
    w = w.detach().requires_grad_()
    y = convolve(x, w.to(x.dtype), layer)
    y.backward(gradient)
    return y.detach(), x.grad, w.grad


def one(layer, dtype, last):
    def run():
        x, w, gradient = tensors(layer, dtype, last)
        rounded = w.to(dtype)
        torch.backends.cudnn.allow_tf32 = dtype == torch.float32
        truth = step(x.double(), rounded.double(), gradient.double(), layer)
        limit = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 3e-3}[dtype]
        face.cache_clear()
        with face.enable():
            for _ in range(3):  # the first makes plans; later ones follow each other closely
                got = step(x, w, gradient, layer)
            far = [near(a.double(), b, limit) for a, b in zip(got, truth)]
            # Other weights at once, behind work that is long: what is read early would be the old ones.
            for factor in (2.0, -1.0):
                changed = step(x, w * factor, gradient, layer)
                near(changed[0].double(), truth[0] * factor, limit)
                near(changed[1].double(), truth[1] * factor, limit)
        info = face.cache_info()
        kernels = ", ".join(f"{row.problem.split(':')[0]} {row.kernel}" for row in face.report())
        return f"differs by {', '.join(f'{each:.1e}' for each in far)}; left {info.fallen_forward + info.fallen_backward}; {kernels}"

    return run


def from_odd_places(layer):
    """Weights that begin at no whole 16 bytes."""

    def run():
        x, w, gradient = tensors(layer, torch.float16, True)
        memory = torch.empty(w.numel() + 8, dtype=torch.float16, device=DEVICE)
        odd = torch.as_strided(memory, w.shape, w.stride(), 3)
        odd.copy_(w)
        truth = convolve(x.double(), odd.double(), layer)
        with face.enable():
            y = convolve(x, odd.requires_grad_(), layer)
        return f"differs by {near(y.detach().double(), truth, 2e-3):.1e}"

    return run


def biased():
    """Two layers with biases under autocast, the first of f32 input: kernels take the parameters themselves, as they are in each step."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(16, 64, 3), torch.nn.Conv2d(64, 24, 3, stride=2)).to(DEVICE)
    net = net.to(memory_format=torch.channels_last)
    x = torch.randn(4, 16, 20, 20, device=DEVICE).contiguous(memory_format=torch.channels_last)

    def gradients(net, x):
        net.zero_grad()
        with torch.autocast("cuda", torch.float16, enabled=x.dtype == torch.float32):
            y = net(x)
        y.to(x.dtype).square().mean().backward()
        return [y.detach().double(), *[each.grad.double() for each in net.parameters()]]

    worst = 0.0
    for _ in range(3):
        truth = gradients(copy.deepcopy(net).double(), x.double())
        with face.enable():
            ours = gradients(net, x)
        worst = max([worst, *[near(a, b, 5e-3) for a, b in zip(ours, truth)]])
        with torch.no_grad():
            for layer in net:
                layer.bias.add_(1).mul_(-2)
    return f"differs by {worst:.1e}"


def run():
    check("biases under autocast", biased)
    for layer in LAYERS:
        for dtype, last in ((torch.float16, True), (torch.bfloat16, True), (torch.float32, True), (torch.float16, False)):
            check(f"a step of {layer}, {str(dtype)[6:]}, channels {'last' if last else 'first'}", one(layer, dtype, last))
    for layer in (LAYERS[1], LAYERS[3], LAYERS[6]):
        check(f"weights of {layer} from an odd place", from_odd_places(layer))
