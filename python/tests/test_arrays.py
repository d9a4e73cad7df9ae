"""Arrays of other libraries: JAX, anything with DLPack, anything with the array interface."""
# SPDX-License-Identifier: Apache-2.0

import numpy
import pytest
import reference

import polyconv


class Foreign:
    """A library of which nothing is known but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Old(Foreign):
    """The same from before version 1 of DLPack."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class Interface:
    """The array interface alone."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("wrap", [Foreign, Old, Interface])
def test_foreign_arrays(draw, wrap):
    if not hasattr(numpy.ndarray, "__dlpack__"):
        pytest.skip(f"NumPy {numpy.__version__} has no DLPack")
    x, w = draw(2, 3, 8, 8), draw(4, 3, 3, 3)
    wanted = reference.conv(x, w, padding=1)
    result = polyconv.conv(wrap(x), wrap(w), padding=1)
    assert type(result) is numpy.ndarray
    numpy.testing.assert_array_equal(result, wanted)
    if wrap is not Old:  # before version 1 nobody could tell that an array is read-only
        frozen = x.copy()
        frozen.flags.writeable = False
        with pytest.raises((polyconv.InvalidArgument, BufferError), match="read-?only"):
            polyconv.conv(x, draw(3, 3, 1, 1), out=wrap(frozen))
    turned = numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    numpy.testing.assert_array_equal(polyconv.conv(wrap(turned), w, padding=1), wanted)


def test_objects_that_are_no_arrays():
    with pytest.raises(polyconv.InvalidArgument, match="x is a builtins.object"):
        polyconv.conv(object(), numpy.ones((1, 1, 1, 1), "f"))


def test_pictures_of_pil(draw):
    image = pytest.importorskip("PIL.Image")
    pixels = draw(12, 10, 3, dtype="uint8", low=0, high=255)
    kernel = numpy.ones((3, 3)) / 9
    numpy.testing.assert_array_equal(polyconv.filter(image.fromarray(pixels), kernel), polyconv.filter(pixels, kernel))


def test_jax(draw):
    jax = pytest.importorskip("jax")
    x, w = draw(2, 3, 8, 8), draw(4, 3, 3, 3)
    result = polyconv.conv(jax.numpy.asarray(x), jax.numpy.asarray(w), padding=1)
    assert isinstance(result, jax.Array)
    numpy.testing.assert_array_equal(numpy.asarray(result), reference.conv(x, w, padding=1))
    with pytest.raises(polyconv.InvalidArgument, match="out is read-only"):
        polyconv.conv(x, w, padding=1, out=result)
    half = polyconv.conv(jax.numpy.asarray(x, "bfloat16"), jax.numpy.asarray(w, "bfloat16"))
    assert half.dtype == "bfloat16"


def test_bfloat16_of_numpy(draw):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, w = draw(1, 3, 6, 6).astype(ml_dtypes.bfloat16), draw(4, 3, 3, 3).astype(ml_dtypes.bfloat16)
    result = polyconv.conv(x, w)
    assert result.dtype == ml_dtypes.bfloat16
    numpy.testing.assert_array_equal(result.astype("f"), reference.conv(x.astype("f"), w.astype("f")))


def cupy_with_a_gpu():
    cupy = pytest.importorskip("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own, of a driver that is not there
        pytest.skip(f"CuPy has no GPU here: {error}")
    if not count or not any(device.name.startswith("cuda") for device in polyconv.devices()):
        pytest.skip("no CUDA device for CuPy and polyconv")
    return cupy


def test_arrays_of_cupy(draw):
    """In place on the GPU, on CuPy's stream, in CuPy's own kind."""
    cupy = cupy_with_a_gpu()
    x, w = draw(2, 16, 8, 8), draw(8, 16, 3, 3)
    wanted = reference.conv(x, w, padding=1)
    with cupy.cuda.Stream(non_blocking=True):
        result = polyconv.conv(cupy.asarray(x), cupy.asarray(w), padding=1)
        assert isinstance(result, cupy.ndarray)
        numpy.testing.assert_array_equal(cupy.asnumpy(result), wanted)
        out = cupy.empty_like(result)
        assert polyconv.conv(cupy.asarray(x), cupy.asarray(w), padding=1, out=out) is out
        numpy.testing.assert_array_equal(cupy.asnumpy(out), wanted)
    with pytest.raises(polyconv.InvalidArgument, match="w is on the CPU and x on cuda:0"):
        polyconv.conv(cupy.asarray(x), w)
