"""What the tests of polyconv.torch share: a fresh start of each, a small model, a training step of it, and when results are the same."""
# SPDX-License-Identifier: Apache-2.0

import pytest
import torch
from torch import nn

import polyconv.torch as face


@pytest.fixture(autouse=True)
def alone():
    """Imported by a file, before and after each of its tests: nothing kept, nothing overridden."""
    face.cache_clear()
    torch.manual_seed(0)
    yield
    face.disable()
    face.cache_clear()


def model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8, padding=1, padding_mode="reflect"),
        nn.Conv2d(8, 16, 1, stride=2, bias=False),
        nn.ConvTranspose2d(16, 4, 3, stride=2, output_padding=1),
    )


def step(net, x):
    """Output and every gradient of one training step."""
    net.zero_grad()
    x = x.detach().requires_grad_()
    y = net(x)
    y.square().mean().backward()
    return [y.detach(), x.grad] + [each.grad.clone() for each in net.parameters()]


def close(ours, theirs, scale=1e-5):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert (a - b).abs().max() <= scale * max(1.0, float(b.abs().max()))


def of_rounded(layer, x, dtype):
    """What a Conv2d gives for parameters and input of `dtype` when its sums lose nothing. PyTorch 1.13's own bfloat16 sums, on a
    processor without AVX-512, are of bfloat16: wrong by more than a test of ours may allow."""
    x, w, b = (each.detach().to(dtype).double() for each in (x, layer.weight, layer.bias))
    return nn.functional.conv2d(x, w, b, layer.stride, layer.padding, layer.dilation, layer.groups).float()
