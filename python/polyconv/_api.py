"""conv, conv_transpose, grad_input, grad_weight and filter: arrays in, arrays of the same library out."""
# SPDX-License-Identifier: Apache-2.0

import numpy

from . import _core
from ._settings import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD, Settings
from .errors import InvalidArgument

_INPUT_NAMES = ("out", "w", "bias", "grad", "residual", "scale", "slope")
_WEIGHT_NAMES = ("x", "out", "out_bias", "grad", "residual", "scale", "slope")
_FILTER_NAMES = ("image", "kernel", "bias", "out", "residual", "scale", "slope")


def _frozen(value):
    """Lists as tuples, and NumPy's as well, so that settings can be looked up; the value itself where it is neither."""
    if isinstance(value, numpy.ndarray):
        return _frozen(value.tolist())
    if not isinstance(value, (list, tuple)):
        return value
    made = tuple(map(_frozen, value))
    return value if isinstance(value, tuple) and all(a is b for a, b in zip(made, value)) else made


def _call(settings, arrays, names, stream):
    try:
        return _core.call(settings, arrays, names, stream)
    except TypeError:
        frozen = tuple(map(_frozen, settings))
        for name, value in zip(Settings._fields, frozen):
            try:
                hash(value)
            except TypeError:
                raise InvalidArgument(f"{name} is {value!r}, expected numbers, names or tuples of them") from None
        if all(a is b for a, b in zip(frozen, settings)):
            raise
    return _core.call(frozen, arrays, names, stream)


def _shape(value):
    """A shape as a tuple, for settings."""
    if not isinstance(value, (tuple, list)):
        raise InvalidArgument(f"shape is {value!r}, expected the shape of what the gradient is for")
    return tuple(value)


def _gradient(direction, arguments):
    """The settings of a gradient from the arguments of its function, whose names are those of Settings."""
    same = {name: value for name, value in arguments.items() if name in Settings._fields}
    return Settings(direction, **{**same, "shape": _shape(arguments["shape"])})


def conv(
    x,
    w,
    bias=None,
    *,
    stride=1,
    padding=0,
    padding_mode="zero",
    pad_value=0.0,
    dilation=1,
    groups=1,
    activation=None,
    pool=None,
    residual=None,
    residual_scale=1.0,
    scale=None,
    slope=None,
    math="strict",
    determinism="run",
    kernel=None,
    threads=0,
    channels_last=False,
    flip=False,
    dtype=None,
    out=None,
    stream=None,
):
    """Convolves x with w and gives back an array of x's own library.

    x         N x C x spatial..., or C x spatial... for one image; 1 to 3 spatial axes; any strides. With channels_last
              N x spatial... x C
    w         K x C/groups x kernel..., any strides; or packed Weights
    bias      one number for each output channel
    stride, dilation   one number, or one an axis
    padding   one number, one an axis, a pair (begin, end) an axis, 'same' or 'valid'; negative ones crop
    padding_mode       'zero', 'constant' (with pad_value), 'reflect', 'symmetric', 'replicate' or 'circular'
    residual  added before the activation, times residual_scale: an array like the result before pooling
    scale     a factor for each output channel, before the bias
    activation         'relu', 'silu', 'gelu', 'gelu_tanh', 'tanh', 'sigmoid', 'hard_swish', ('clipped_relu', 6),
              ('leaky_relu', 0.1), ('elu', 1), or 'prelu' with a slope for each output channel
    pool      a Pool over the activated result
    math      'strict', 'fp32_emulated', 'tf32' or 'fast': what a kernel may do to a product
    determinism        'run' (the same call, the same bits), 'invariant' (the same image in any batch), ...
    kernel    a glob over names of kernels, to choose one
    threads   CPU threads; 0: as many as the process may use
    flip      true convolution: the kernel is walked backwards
    dtype     type of the result: by default x's, and s32 for 8-bit weights
    out       the array to write to, of any library, on the same device
    stream    a CUDA stream as a number; by default the one that x's library works on now

    Plans are kept by what a call looks like, see cache_info. w is taken for new in every call, as nobody tells when an
    array changes, and packed unless kernels read it raw: pack it once with Plan.pack.
    """
    return _call(
        (  # Settings, as a plain tuple: this is the way that has to be quick
            FORWARD,
            False,
            stride,
            padding,
            padding_mode,
            pad_value,
            dilation,
            groups,
            0,
            activation,
            pool,
            residual_scale,
            math,
            determinism,
            kernel,
            threads,
            channels_last,
            dtype,
            flip,
        ),
        (x, w, bias, out, residual, scale, slope),
        None,
        stream,
    )


def conv_transpose(
    x,
    w,
    bias=None,
    *,
    stride=1,
    padding=0,
    output_padding=0,
    dilation=1,
    groups=1,
    activation=None,
    pool=None,
    residual=None,
    residual_scale=1.0,
    scale=None,
    slope=None,
    math="strict",
    determinism="run",
    kernel=None,
    threads=0,
    channels_last=False,
    dtype=None,
    out=None,
    stream=None,
):
    """The transposed convolution: the adjoint of a convolution from its result to x.

    w is C x K/groups x kernel..., as in PyTorch and ONNX; output_padding adds at the end of the result. Everything else
    is as in conv.
    """
    return _call(
        (  # Settings, as in conv
            FORWARD,
            True,
            stride,
            padding,
            "zero",
            0.0,
            dilation,
            groups,
            output_padding,
            activation,
            pool,
            residual_scale,
            math,
            determinism,
            kernel,
            threads,
            channels_last,
            dtype,
        ),
        (x, w, bias, out, residual, scale, slope),
        None,
        stream,
    )


def grad_input(
    grad,
    w,
    shape,
    *,
    stride=1,
    padding=0,
    padding_mode="zero",
    dilation=1,
    groups=1,
    transposed=False,
    output_padding=0,
    math="strict",
    determinism="run",
    kernel=None,
    threads=0,
    channels_last=False,
    dtype=None,
    out=None,
    stream=None,
):
    """The gradient of conv's x (of conv_transpose's, where transposed): `grad` is that of its result, `shape` x's."""
    settings = _gradient(BACKWARD_DATA, locals())
    return _call(settings, (out, w, None, grad, None, None, None), _INPUT_NAMES, stream)


def grad_weight(
    x,
    grad,
    shape,
    *,
    bias=False,
    stride=1,
    padding=0,
    padding_mode="zero",
    dilation=1,
    groups=1,
    transposed=False,
    output_padding=0,
    math="strict",
    determinism="run",
    kernel=None,
    threads=0,
    channels_last=False,
    dtype=None,
    out=None,
    stream=None,
):
    """The gradient of conv's w, of shape `shape`; with bias=True a pair of that and the bias's gradient."""
    settings = _gradient(BACKWARD_WEIGHTS, locals())._replace(bias_gradient=bool(bias))
    return _call(settings, (x, out, None, grad, None, None, None), _WEIGHT_NAMES, stream)


def filter(image, kernel, *, border="reflect", border_value=0.0, flip=False, dtype=None, threads=0, out=None, stream=None):
    """Filters a picture as image people hold it: H x W, or H x W x channels, of u8, u16, f32 or another float type. The
    result has the same size, and its type unless dtype says another; integers are rounded and saturated.

    kernel is rows x columns, the same filter for every channel. Its middle lies over the pixel, of an even number of rows
    or columns the first of the two in the middle. A tuple (column, row) of two vectors is their outer product, and
    quicker; two rows are an array. border is 'reflect' (the edge not repeated), 'symmetric' (repeated),
    'replicate', 'constant' (border_value), 'zero' or 'circular'. The filter is not turned around, as in OpenCV; flip=True
    does.
    """
    separable = isinstance(kernel, (tuple, list)) and len(kernel) == 2 and all(numpy.ndim(one) == 1 for one in kernel)
    if separable and isinstance(kernel, list):
        raise InvalidArgument(f"kernel is {kernel!r}, expected a tuple of a column and a row, or two rows as an array")
    if separable:
        kernel = numpy.outer(numpy.asarray(kernel[0], "float64"), numpy.asarray(kernel[1], "float64"))
    kernel = _filter_like(image, kernel)
    rows, columns = _shape_of_filter(kernel)
    padding = (((rows - 1) // 2, rows // 2), ((columns - 1) // 2, columns // 2))
    settings = Settings(
        FORWARD,
        padding=padding,
        padding_mode=border,
        pad_value=border_value,
        threads=threads,
        dtype=dtype,
        flip=flip,
        separable=separable,
        image=True,
    )
    return _call(settings, (image, kernel, None, out, None, None, None), _FILTER_NAMES, stream)


def _filter_like(image, kernel):
    """A filter of the type that the picture's row asks for: it is small, so that people may write it as they like. One
    that lies on a device must have the type already."""
    if not isinstance(kernel, (numpy.ndarray, list, tuple)):
        return kernel
    name = str(getattr(image, "dtype", "")).rsplit(".", 1)[-1]
    wanted = name if name in ("float64", "float16") else "float32"
    try:
        if not numpy.iscomplexobj(kernel):
            return numpy.ascontiguousarray(kernel, wanted)
    except (TypeError, ValueError):
        pass
    raise InvalidArgument(f"kernel is {kernel!r}, expected rows and columns of real numbers")


def _shape_of_filter(kernel):
    shape = tuple(getattr(kernel, "shape", ()))
    if len(shape) != 2 or 0 in shape:
        raise InvalidArgument(f"kernel has shape {shape}, expected rows and columns of a filter")
    return shape
