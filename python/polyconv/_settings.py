"""Everything of a call that is no array: its settings as the faces give them, and what they say about a problem."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple, Optional

from ._values import flag, real
from .errors import InvalidArgument
from .names import POOLS, activation, number_of

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = range(3)
INPUT, WEIGHTS, BIAS, OUTPUT, RESIDUAL, SCALE, SLOPE = range(7)  # the places of a call's arrays, call.hpp's Role


class Pool(NamedTuple):
    """Pooling over the activated result: Pool('max', 2), or Pool('average', 3, stride=2, padding=1)."""

    kind: str
    window: object
    stride: object = None
    padding: object = 0
    dilation: object = 1
    ceil: bool = False
    count_include_pad: bool = True


class Settings(NamedTuple):
    """Everything of a call that is no array; a plain tuple of the same on the way to the extension module."""

    direction: int
    transposed: bool = False
    stride: object = 1
    padding: object = 0
    padding_mode: object = "zero"
    pad_value: float = 0.0
    dilation: object = 1
    groups: int = 1
    output_padding: object = 0
    activation: object = None
    pool: object = None
    residual_scale: float = 1.0
    math: object = "strict"
    determinism: object = "run"
    kernel: Optional[str] = None
    threads: int = 0
    channels_last: bool = False
    dtype: object = None
    flip: bool = False
    separable: bool = False
    shape: object = None  # of what a gradient is for: the input's, or the weights'
    bias_gradient: bool = False
    image: bool = False  # arrays are H x W or H x W x C, and weights one filter for all channels


def numbers(value, axes, argument):
    """One whole number an axis, from one for all or a sequence."""
    if isinstance(value, (tuple, list)):
        if len(value) != axes:
            raise InvalidArgument(f"{argument} is {value!r}, expected {axes} numbers or one for all axes")
        values = value
    else:
        values = [value] * axes
    try:
        if not any(isinstance(one, bool) for one in values):
            return [int(one.__index__()) for one in values]
    except (AttributeError, TypeError):
        pass
    raise InvalidArgument(f"{argument} is {value!r}, expected whole numbers")


def paddings(value, problem, axes):
    """(begin, end) from a number, one an axis, a pair an axis, 'valid' or 'same'."""
    if value == "valid":
        value = 0
    if value == "same":
        begin, end = [], []
        for i in range(axes):
            size, step = problem["input_size"][i], problem["stride"][i]
            reach = problem["dilation"][i] * (problem["kernel_size"][i] - 1) + 1
            total = max((-(-size // step) - 1) * step + reach - size, 0)
            begin.append(total // 2)
            end.append(total - total // 2)
        return begin, end
    if isinstance(value, str):
        raise InvalidArgument(f"padding is {value!r}, expected numbers, pairs of them, 'same' or 'valid'")
    if isinstance(value, (tuple, list)) and any(isinstance(one, (tuple, list)) for one in value):
        if len(value) != axes or any(not isinstance(one, (tuple, list)) or len(one) != 2 for one in value):
            raise InvalidArgument(f"padding is {value!r}, expected {axes} pairs (begin, end)")
        return numbers([one[0] for one in value], axes, "padding"), numbers([one[1] for one in value], axes, "padding")
    both = numbers(value, axes, "padding")
    return both, both


def epilogue(problem, settings, seen, axes):
    """What happens to each sum, from the settings and from which arrays there are."""
    number, alpha = activation(settings.activation)
    problem["activation"], problem["activation_alpha"] = number, alpha
    problem["has_bias"] = int(seen[BIAS] is not None or settings.bias_gradient)
    problem["has_scale"] = int(seen[SCALE] is not None)
    problem["residual_from"] = int(seen[RESIDUAL] is not None)
    problem["residual_scale"] = real(settings.residual_scale, "residual_scale")
    if settings.pool is None:
        return
    if not isinstance(settings.pool, tuple) or not 2 <= len(settings.pool) <= 7:
        raise InvalidArgument(f"pool is {settings.pool!r}, expected a polyconv.Pool, such as Pool('max', 2)")
    pool = Pool(*settings.pool)
    problem["pool_kind"] = number_of(POOLS, pool.kind, "pool.kind")
    problem["pool_window"] = numbers(pool.window, axes, "pool.window")
    problem["pool_stride"] = numbers(pool.window if pool.stride is None else pool.stride, axes, "pool.stride")
    problem["pool_pad_begin"] = problem["pool_pad_end"] = numbers(pool.padding, axes, "pool.padding")
    problem["pool_dilation"] = numbers(pool.dilation, axes, "pool.dilation")
    problem["pool_ceil"] = int(flag(pool.ceil, "pool.ceil"))
    counts = flag(pool.count_include_pad, "pool.count_include_pad")
    problem["pool_count_include_pad"] = int(counts and problem["pool_kind"] == 2)
