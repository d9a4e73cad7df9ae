"""filter: pictures as image people hold them."""
# SPDX-License-Identifier: Apache-2.0

import numpy
import pytest
import reference

import polyconv


def wanted(image, kernel, mode="reflect", value=0.0):
    planes = image[..., None] if image.ndim == 2 else image
    rows, columns = kernel.shape
    padding = [((rows - 1) // 2, rows // 2), ((columns - 1) // 2, columns // 2)]
    filtered = [
        reference.conv(planes[None, None, ..., i], kernel[None, None], padding=padding, mode=mode, value=value)[0, 0]
        for i in range(planes.shape[2])
    ]
    return numpy.stack(filtered, -1).reshape(image.shape)


@pytest.mark.parametrize("shape", [(9, 11), (9, 11, 1), (9, 11, 3), (9, 11, 4)])
@pytest.mark.parametrize("border", ["reflect", "symmetric", "replicate", "circular", "constant", "zero"])
def test_borders_and_channels(draw, shape, border):
    image, kernel = draw(*shape), draw(3, 5)
    value = 3.0 if border == "constant" else 0.0
    result = polyconv.filter(image, kernel, border=border, border_value=value)
    assert result.shape == shape and result.dtype == image.dtype and result.flags.c_contiguous
    numpy.testing.assert_array_equal(result, wanted(image, kernel, border, value))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_integers_round_and_saturate(draw, dtype):
    top = numpy.iinfo(dtype).max
    image = draw(8, 9, 3, dtype=dtype, low=0, high=top)
    result = polyconv.filter(image, numpy.array([[0.25, 0.5, 0.75]]))
    exact = numpy.clip(numpy.rint(wanted(image, numpy.array([[0.25, 0.5, 0.75]]))), 0, top)
    assert result.dtype == image.dtype
    numpy.testing.assert_array_equal(result, exact.astype(dtype))
    real = polyconv.filter(image, [[-1, 0, 1]], dtype="f32")
    assert real.dtype == numpy.float32
    numpy.testing.assert_array_equal(real, wanted(image, numpy.array([[-1.0, 0, 1]])))


def test_separable_and_even_kernels(draw):
    image = draw(10, 12)
    numpy.testing.assert_array_equal(
        polyconv.filter(image, ([1, 2, 1], [1, 0, -1])), wanted(image, numpy.outer([1, 2, 1], [1, 0, -1]))
    )
    kernel = draw(2, 4)
    numpy.testing.assert_array_equal(polyconv.filter(image, kernel), wanted(image, kernel))


def test_true_convolution(draw):
    image, kernel = draw(7, 7), draw(3, 3)
    numpy.testing.assert_array_equal(polyconv.filter(image, kernel, flip=True), wanted(image, kernel[::-1, ::-1]))


def test_views_and_out(draw):
    big, kernel = draw(12, 14, 3), draw(3, 3)
    view = big[2:9, ::-1]
    numpy.testing.assert_array_equal(polyconv.filter(view, kernel), wanted(view, kernel))
    frame = numpy.zeros((12, 14, 3), "float32")
    polyconv.filter(view, kernel, out=frame[1:8])
    numpy.testing.assert_array_equal(frame[1:8], wanted(view, kernel))
    assert not frame[8:].any() and not frame[0].any()


def test_bad(draw):
    with pytest.raises(polyconv.InvalidArgument, match="border is 'mirror', expected one of 'zero'"):
        polyconv.filter(draw(5, 5), draw(3, 3), border="mirror")
    with pytest.raises(polyconv.InvalidArgument, match="image has 4 axes"):
        polyconv.filter(draw(1, 5, 5, 3), draw(3, 3))
    with pytest.raises(polyconv.InvalidArgument, match="kernel is"):
        polyconv.filter(draw(5, 5), [["a", "b"]])
    with pytest.raises(polyconv.InvalidArgument, match="a tuple of a column and a row, or two rows as an array"):
        polyconv.filter(draw(5, 5), [[1, 2, 1], [1, 2, 1]])
