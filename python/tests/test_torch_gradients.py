"""polyconv.torch: gradients against difference quotients, and those that are not asked for or not taken."""
# SPDX-License-Identifier: Apache-2.0

import pytest

torch = pytest.importorskip("torch")

import polyconv.torch as face  # noqa: E402
from torch_models import alone, close  # noqa: E402, F401

nn = torch.nn
NEW = hasattr(torch.ops.aten.convolution_backward.default, "redispatch")


def random_layer(generator):
    """A small layer in double, and an input; every dimension, groups, strides, dilations, transposed or not."""

    def pick(*choices):
        return choices[int(torch.randint(len(choices), (1,), generator=generator))]

    dims, groups, transposed = pick(1, 2, 3), pick(1, 2), pick(False, True)
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dims}d")
    settings = dict(stride=pick(1, 2), dilation=pick(1, 2), groups=groups, bias=pick(False, True))
    taps = tuple(pick(1, 2, 3) for _ in range(dims))
    if not transposed:
        settings.update(padding_mode=pick("zeros", "zeros", "zeros", "replicate", "circular"))
    padding = tuple(pick(0, 1) if size > 1 else 0 for size in taps)
    layer = kind(2 * pick(1, 2) if groups == 2 else pick(1, 2), 2, taps, padding=padding, **settings).double()
    inputs = torch.randn(pick(1, 2), layer.in_channels, *[5] * dims, dtype=torch.float64, generator=generator)
    return layer, inputs.requires_grad_()


def test_gradcheck():
    """Numerical derivatives of 200 random layers in double, of every tenth also those of the derivatives."""
    generator = torch.Generator().manual_seed(1)
    functional = torch.nn.utils.stateless.functional_call if not hasattr(torch, "func") else torch.func.functional_call
    with face.enable():
        for number in range(200):
            layer, x = random_layer(generator)
            names = [name for name, _ in layer.named_parameters()]

            def run(x, *parameters):
                return functional(layer, dict(zip(names, parameters)), (x,))

            inputs = (x, *[each.detach().clone().requires_grad_() for each in layer.parameters()])
            # The fast mode holds one random direction of each derivative against its difference quotient.
            assert torch.autograd.gradcheck(run, inputs, fast_mode=True), layer
            if number % 10 == 0:
                assert torch.autograd.gradcheck(run, inputs), layer
                assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True), layer
    assert face.cache_info().fallen_forward == face.cache_info().fallen_backward == 0
    assert face.cache_info().plans > 300


def test_only_what_is_wanted():
    layer = nn.Conv2d(3, 4, 3)
    layer.weight.requires_grad_(False)
    x = torch.randn(1, 3, 8, 8)
    with face.enable():
        layer(x).sum().backward()
        directions = {row.problem.split(":")[0] for row in face.report()}
    assert directions == {"fwd"}  # the bias's gradient is a sum alone
    assert torch.equal(layer.bias.grad, torch.full((4,), 36.0))


@pytest.mark.skipif(not NEW, reason="PyTorch before 2.0 has no way past an override of the gradient")
def test_gradients_that_are_not_taken():
    from polyconv.torch import _dispatch

    x, w = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    arguments = (torch.randn(1, 4, 6, 6), x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    theirs = torch.ops.aten.convolution_backward(*arguments)
    with face.enable():
        close(_dispatch.original_backward(*arguments), theirs)
        assert face.cache_info().plans == 0
