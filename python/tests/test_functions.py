"""conv, conv_transpose and the gradients on NumPy arrays: exact against plain NumPy, on whole numbers."""
# SPDX-License-Identifier: Apache-2.0

import numpy
import pytest
import reference

import polyconv


def exact(result, wanted):
    assert result.shape == wanted.shape
    numpy.testing.assert_array_equal(numpy.asarray(result, "float64"), wanted)


CASES = [
    dict(x=(2, 3, 9), w=(4, 3, 3)),
    dict(x=(2, 3, 9, 8), w=(4, 3, 3, 3), padding=1),
    dict(x=(1, 4, 9, 11), w=(6, 2, 3, 2), stride=2, groups=2, padding=(1, 0)),
    dict(x=(1, 5, 8, 8), w=(5, 1, 3, 3), groups=5, padding=1, dilation=2),
    dict(x=(1, 2, 5, 6, 7), w=(3, 2, 2, 3, 2), padding=((0, 1), (2, 0), (1, 1)), stride=(1, 2, 1)),
    dict(x=(2, 3, 1, 1), w=(4, 3, 1, 1)),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_forward(draw, case, dtype):
    case = dict(case)
    x, w = draw(*case.pop("x"), dtype=dtype), draw(*case.pop("w"), dtype=dtype)
    bias = draw(w.shape[0], dtype=dtype)
    result = polyconv.conv(x, w, bias, **case)
    assert type(result) is numpy.ndarray and result.dtype == x.dtype
    exact(result, reference.conv(x, w, bias, **case))


@pytest.mark.parametrize("mode", ["zero", "constant", "reflect", "symmetric", "replicate", "circular"])
def test_padding_modes(draw, mode):
    x, w = draw(1, 2, 6, 7), draw(3, 2, 3, 3)
    value = 2.0 if mode == "constant" else 0.0
    result = polyconv.conv(x, w, padding=2, padding_mode=mode, pad_value=value)
    exact(result, reference.conv(x, w, padding=2, mode=mode, value=value))


def test_same_padding(draw):
    x = draw(1, 2, 7, 8)
    for kernel, stride in (((3, 3), 1), ((4, 2), 1), ((3, 4), (2, 3))):
        result = polyconv.conv(x, draw(3, 2, *kernel), padding="same", stride=stride)
        steps = reference.each(stride, 2)
        assert result.shape == (1, 3, -(-7 // steps[0]), -(-8 // steps[1]))
    w = draw(3, 2, 4, 2)
    exact(polyconv.conv(x, w, padding="same"), reference.conv(x, w, padding=[(1, 2), (0, 1)]))
    exact(polyconv.conv(x, w, padding="valid"), reference.conv(x, w))


def test_epilogue(draw):
    x, w, bias, residual = draw(2, 3, 8, 8), draw(4, 3, 3, 3), draw(4), draw(2, 4, 8, 8)
    sums = reference.conv(x, w, bias, padding=1) + 2 * residual
    exact(
        polyconv.conv(x, w, bias, padding=1, residual=residual, residual_scale=2, activation="relu"), numpy.maximum(sums, 0)
    )
    leaky = polyconv.conv(x, w, bias, padding=1, residual=residual, residual_scale=2, activation=("leaky_relu", 0.5))
    exact(leaky, numpy.where(sums > 0, sums, 0.5 * sums))
    slope = numpy.array([0.5, 2, 0.25, 1], "float32")
    prelu = polyconv.conv(x, w, bias, padding=1, activation="prelu", slope=slope)
    plain = reference.conv(x, w, bias, padding=1)
    exact(prelu, numpy.where(plain > 0, plain, slope.reshape(1, 4, 1, 1) * plain))
    scaled = polyconv.conv(x, w, bias, padding=1, scale=slope)
    exact(scaled, (plain - bias.reshape(1, 4, 1, 1)) * slope.reshape(1, 4, 1, 1) + bias.reshape(1, 4, 1, 1))


def test_a_residual_and_a_pooled_result_in_other_orders_of_memory(draw):
    """The library knows the residual's layout by the result's, which goes by strides where it has another."""
    x, w, residual = draw(2, 3, 8, 8), draw(4, 3, 3, 3), draw(2, 4, 8, 8)
    wanted = polyconv.conv(x, w, padding=1, residual=residual, pool=polyconv.Pool("max", 2))
    last = numpy.ascontiguousarray(residual.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for added in residual, last:
        for out in numpy.zeros((2, 4, 4, 4), "f"), numpy.zeros((2, 4, 4, 4), "f").transpose(0, 3, 1, 2):
            polyconv.conv(x, w, padding=1, residual=added, pool=polyconv.Pool("max", 2), out=out)
            numpy.testing.assert_array_equal(out, wanted)


def test_pooling(draw):
    x, w = draw(2, 3, 8, 8), draw(4, 3, 3, 3)
    plain = reference.conv(x, w, padding=1).reshape(2, 4, 4, 2, 4, 2)
    exact(polyconv.conv(x, w, padding=1, pool=polyconv.Pool("max", 2)), plain.max((3, 5)))
    exact(polyconv.conv(x, w, padding=1, pool=("average", 2)), plain.mean((3, 5)))


def test_one_image_without_batch(draw):
    x, w = draw(3, 8, 9), draw(4, 3, 3, 3)
    exact(polyconv.conv(x, w), reference.conv(x[None], w)[0])


def test_channels_last(draw):
    x, w, bias = draw(2, 7, 8, 3), draw(4, 3, 3, 3), draw(4)
    wanted = reference.conv(x.transpose(0, 3, 1, 2), w, bias, padding=1).transpose(0, 2, 3, 1)
    result = polyconv.conv(x, w, bias, padding=1, channels_last=True)
    exact(result, wanted)
    assert result.flags.c_contiguous
    exact(polyconv.conv(x[0], w, bias, padding=1, channels_last=True), wanted[0])
    seen = polyconv.conv(x.transpose(0, 3, 1, 2), w, bias, padding=1)  # the same memory under other axes
    exact(seen, wanted.transpose(0, 3, 1, 2))
    assert seen.transpose(0, 2, 3, 1).flags.c_contiguous  # memory follows x's


def test_strides(draw):
    whole, w = draw(2, 3, 18, 16), draw(4, 3, 3, 3)
    x = whole[:, :, ::2, ::-1]  # every other row, columns walked backwards
    exact(polyconv.conv(x, w), reference.conv(x, w))
    spread = numpy.broadcast_to(draw(1, 3, 1, 8), (2, 3, 9, 8))
    exact(polyconv.conv(spread, w), reference.conv(spread, w))
    turned = numpy.ascontiguousarray(w.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    exact(polyconv.conv(x, turned), reference.conv(x, w))


def test_out(draw):
    x, w = draw(2, 3, 8, 8), draw(4, 3, 3, 3)
    wanted = reference.conv(x, w)
    out = numpy.full((2, 4, 6, 6), numpy.nan, "float32")
    assert polyconv.conv(x, w, out=out) is out
    exact(out, wanted)
    frame = numpy.full((2, 4, 8, 12), 7, "float32")
    polyconv.conv(x, w, out=frame[:, :, 1:7, 3:9])
    exact(frame[:, :, 1:7, 3:9].copy(), wanted)
    frame[:, :, 1:7, 3:9] = 7
    assert (frame == 7).all()


def test_no_copy(draw):
    """What is written is the caller's own memory, and inputs are read where they are: a call after a change sees it."""
    x, w = draw(1, 1, 4, 4), numpy.ones((1, 1, 1, 1), "float32")
    assert (polyconv.conv(x, w) == x).all()
    x[:] = 5
    w[:] = 3
    assert (polyconv.conv(x, w) == 15).all()


def test_integers(draw):
    x, w = draw(1, 3, 6, 6, dtype="uint8", low=0, high=200), draw(2, 3, 3, 3, dtype="int8", low=-90, high=90)
    result = polyconv.conv(x, w)
    assert result.dtype == numpy.int32
    exact(result, reference.conv(x, w))


def test_true_convolution(draw):
    x, w = draw(1, 2, 6, 6), draw(3, 2, 3, 3)
    exact(polyconv.conv(x, w, flip=True), reference.conv(x, w[:, :, ::-1, ::-1]))


@pytest.mark.parametrize(
    "case",
    [
        dict(x=(2, 3, 5), w=(3, 4, 3), stride=2, output_padding=1),
        dict(x=(1, 4, 4, 5), w=(4, 3, 3, 2), stride=(2, 1), padding=1, groups=2),
        dict(x=(1, 2, 3, 3, 2), w=(2, 2, 2, 2, 2), dilation=2),
    ],
)
def test_transpose(draw, case):
    case = dict(case)
    x, w = draw(*case.pop("x")), draw(*case.pop("w"))
    bias = draw(w.shape[1] * case.get("groups", 1))
    exact(polyconv.conv_transpose(x, w, bias, **case), reference.conv_transpose(x, w, bias, **case))


@pytest.mark.parametrize("settings", [dict(), dict(stride=2, padding=1), dict(groups=2, dilation=2)])
def test_gradients(draw, settings):
    groups = settings.get("groups", 1)
    x, w = draw(2, 2, 6, 5), draw(4, 2 // groups, 3, 2)
    grad = draw(*reference.conv(x, w, **settings).shape)
    exact(polyconv.grad_input(grad, w, x.shape, **settings), reference.grad_input(grad, w, x.shape, **settings))
    weights, bias = polyconv.grad_weight(x, grad, w.shape, bias=True, **settings)
    exact(weights, reference.grad_weight(x, grad, w.shape, **settings))
    exact(bias, grad.sum((0, 2, 3), dtype="float64"))
    out = numpy.empty(x.shape, "float32")
    assert polyconv.grad_input(grad, w, x.shape, out=out, **settings) is out
    last = polyconv.grad_weight(
        numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)),
        numpy.ascontiguousarray(grad.transpose(0, 2, 3, 1)),
        w.shape,
        channels_last=True,
        **settings,
    )
    exact(last, reference.grad_weight(x, grad, w.shape, **settings))


def test_empty(draw):
    assert polyconv.conv(draw(0, 3, 8, 8), draw(4, 3, 3, 3)).shape == (0, 4, 6, 6)


def test_math_and_kernel(draw):
    x, w = draw(1, 8, 16, 16), draw(8, 8, 3, 3)
    exact(polyconv.conv(x, w, kernel="reference/*"), reference.conv(x, w))
    fast = polyconv.conv(x, w, math="fast", determinism="none")
    numpy.testing.assert_allclose(fast, reference.conv(x, w), rtol=1e-3, atol=1e-2)


def test_batch_invariance():
    """The same image gives the same bits in any batch, of numbers that do not add up exactly."""
    generator = numpy.random.default_rng(3)
    x, w = generator.standard_normal((5, 16, 12, 12)).astype("f"), generator.standard_normal((24, 16, 3, 3)).astype("f")
    whole = polyconv.conv(x, w, padding=1, determinism="invariant")
    for i in range(5):
        one = polyconv.conv(x[i : i + 1], w, padding=1, determinism="invariant", threads=1)
        assert (one == whole[i : i + 1]).all()


def test_cache(draw):
    polyconv.cache_clear()
    before = polyconv.cache_info()
    x, w = draw(1, 2, 6, 6), draw(3, 2, 3, 3)
    for _ in range(3):
        polyconv.conv(x, w, padding=[1, 1])
    info = polyconv.cache_info()
    assert (info.hits - before.hits, info.misses - before.misses, info.entries) == (2, 1, 1)
    polyconv.cache_limit(entries=2)
    for size in range(6, 12):
        polyconv.conv(draw(1, 2, size, 6), w)
    assert polyconv.cache_info().entries == 2
    polyconv.cache_limit()
    polyconv.cache_clear()
    assert polyconv.cache_info().entries == 0


def test_weights_are_planned_as_new_in_every_call(draw, monkeypatch):
    """Nobody tells when an array changes: kernels that can shall read it raw. Packed weights are what they are."""
    asked = []
    plan = polyconv._core.Plan

    def make(device, problems, options):
        asked.append(options)
        return plan(device, problems, options)

    monkeypatch.setattr(polyconv._core, "Plan", make)
    x, w = draw(1, 2, 5, 7), draw(3, 2, 3, 3)
    polyconv.cache_clear()
    polyconv.conv(x, w)
    polyconv.grad_input(draw(1, 3, 3, 5), w, x.shape)
    polyconv.grad_weight(x, draw(1, 3, 3, 5), w.shape)
    assert [options.get("new_weights", False) for options in asked] == [True, True, False]
