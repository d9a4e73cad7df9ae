# tail.py - what happens between a sum and the stored value, in the order of polyconv_epilogue. Works in the arithmetic
# of the arrays it is given: float64 and wider with a bound, float32 for the quantised rows, whose every rounding counts.
# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np

import elements
from bounds import Interval
from sums import padded_index

LIBRARY = ("tanh", "sigmoid", "gelu", "silu", "elu", "gelutanh")  # activations that need a function whose roundings nobody fixes
_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(v):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-v))


def _inner(v):
    """What the tanh formula of GELU takes the tanh of."""
    return math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)


def activate(v, name, alpha):
    """alpha: a number, or an array that is broadcast (the slopes of a PReLU)."""
    alpha = np.asarray(alpha, v.dtype)
    if name == "relu":
        return np.where(v < 0, v.dtype.type(0), v)
    if name == "clip":
        return np.where(v < 0, v.dtype.type(0), np.where(v > alpha, alpha, v))
    if name in ("lrelu", "prelu"):
        return np.where(v < 0, alpha * v, v)
    if name == "elu":
        return np.where(v < 0, alpha * np.expm1(np.minimum(v, 0)), v)
    if name == "gelutanh":
        return v * (1 + np.tanh(_inner(v))) / 2
    if name == "tanh":
        return np.tanh(v)
    if name == "sigmoid":
        return _sigmoid(v)
    if name == "gelu":
        return v * (1 + _erf(v * math.sqrt(0.5)).astype(v.dtype)) / 2
    if name == "silu":
        return v * _sigmoid(v)
    if name == "hswish":
        three, six = v.dtype.type(3), v.dtype.type(6)
        return v * np.clip(v + three, v.dtype.type(0), six) / six
    return v


def slope(v, name, alpha):
    """The derivative; at a kink that of the flat or leaky side."""
    if name == "relu":
        return np.where(v > 0, 1.0, 0.0)
    if name == "clip":
        return np.where((v > 0) & (v < alpha), 1.0, 0.0)
    if name in ("lrelu", "prelu"):
        return np.where(v > 0, 1.0, alpha)
    if name == "elu":
        return np.where(v > 0, 1.0, alpha * np.exp(np.minimum(v, 0)))
    if name == "gelutanh":
        t = np.tanh(_inner(v))
        return (1 + t) / 2 + v * (1 - t * t) / 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * v * v)
    if name == "tanh":
        return 1 - np.tanh(v)**2
    s = _sigmoid(v)
    if name == "sigmoid":
        return s * (1 - s)
    if name == "gelu":
        normal = np.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        return (1 + _erf(v * math.sqrt(0.5)).astype(v.dtype)) / 2 + v * normal
    if name == "silu":
        return s * (1 + v * (1 - s))
    if name == "hswish":
        return np.where(v <= -3, 0.0, np.where(v >= 3, 1.0, (2 * v + 3) / 6))
    return np.ones_like(v)


def steepest(name, alpha):
    return {"lrelu": max(1.0, np.abs(alpha).max(initial=0)), "prelu": max(1.0, np.abs(alpha).max(initial=0)),
            "elu": max(1.0, np.abs(alpha).max(initial=0)), "sigmoid": 0.25, "gelu": 1.13, "gelutanh": 1.14, "silu": 1.1,
            "hswish": 1.5}.get(name, 1.0)


def activated(v, layer, alpha, tolerance):
    after = activate(v.value, layer.activation, alpha)
    if v.bound is None:
        return Interval(after)
    computes = layer.activation not in ("none", "relu", "clip")
    own = 4 * tolerance.unit * (np.abs(v.value) + np.abs(after)) if computes else 0
    return Interval(after, steepest(layer.activation, alpha) * v.bound + own)


# ---------------------------------------------------------------- pooling


class Windows:
    """places[t, p]: the pixel at place t of result p's window; `count` where that is padding."""

    def __init__(self, layer):
        pool, sizes = layer.pool, layer.convolved_size()
        self.results, self.count, self.taps = layer.output_size(), int(np.prod(sizes)), int(np.prod(pool.window))
        places, inside, divisor = np.zeros((1, 1), np.int64), np.ones((1, 1), bool), np.ones(1)
        for axis, size in enumerate(sizes):
            first = [o * pool.stride[axis] - pool.pad_begin[axis] for o in range(self.results[axis])]
            steps = [r * pool.dilation[axis] for r in range(pool.window[axis])]
            table = np.array([[padded_index(o + r, size, "zero") for o in first] for r in steps], np.int64)
            end = size + pool.pad_end[axis]  # what a window of a rounded-up size has beyond it never counts
            divisor = divisor[:, None] * np.array([sum(o + r < end for r in steps) for o in first])
            divisor = divisor.reshape(-1)
            places = places[:, None, :, None] * size + table[None, :, None, :]
            inside = inside[:, None, :, None] & (table >= 0)[None, :, None, :]
            shape = places.shape
            places = places.reshape(shape[0] * shape[1], shape[2] * shape[3])
            inside = inside.reshape(places.shape)
        self.places, self.inside = np.where(inside, places, self.count), inside
        self.divisor = divisor if pool.include_pad else np.maximum(inside.sum(0), 1)

    def columns(self, v, pad):
        """[N, C, T, P]"""
        n, c = v.shape[:2]
        flat = np.concatenate([v.reshape(n, c, self.count), np.full((n, c, 1), pad, v.dtype)], 2)
        return flat.take(self.places.ravel(), axis=2).reshape(n, c, *self.places.shape)

    def shaped(self, v):
        return v.reshape(list(v.shape[:2]) + self.results)

    def argmax(self, v):
        columns = self.columns(v, -np.inf)
        best = columns.max(2, keepdims=True)
        hits = ((columns == best) | (np.isnan(columns) & np.isnan(best))) & self.inside
        return self.shaped(hits.argmax(2))

    def spread(self, v, weights):
        """The adjoint: v of each result to its window, times weights[N, C, T, P]."""
        n, c = v.shape[:2]
        values = (v.reshape(n, c, 1, self.places.shape[1]) * weights).ravel()
        rows = np.arange(n * c, dtype=np.int64)[:, None, None] * (self.count + 1)
        index = (rows + self.places[None]).ravel()
        flat = np.bincount(index, values.astype(np.float64), n * c * (self.count + 1))
        return flat.reshape(n, c, self.count + 1)[:, :, :-1]


def pooled(v, layer, tolerance):
    """(pooled, argmax or None)"""
    if layer.pool is None:
        return v, None
    windows = Windows(layer)
    if layer.pool.kind == "max":
        best = windows.shaped(windows.columns(v.value, -np.inf).max(2))
        bound = None if v.bound is None else windows.shaped(windows.columns(v.bound, 0).max(2))
        return Interval(best, bound), windows.argmax(v.value)
    columns = windows.columns(v.value, 0)
    if v.value.dtype == np.float32:  # in order, each addition rounded
        total = np.zeros(columns.shape[:2] + columns.shape[3:], np.float32)
        for t in range(windows.taps):
            total = total + columns[:, :, t]
        return Interval(windows.shaped(total / np.asarray(windows.divisor, np.float32))), None
    value = windows.shaped(columns.sum(2) / windows.divisor)
    if v.bound is None:
        return Interval(value), None
    own = 2 * np.sqrt(windows.taps + 1) * tolerance.unit * np.abs(columns).sum(2)
    return Interval(value, windows.shaped((windows.columns(v.bound, 0).sum(2) + own) / windows.divisor)), None


# ---------------------------------------------------------------- integers


def quantised(v, layer):
    """What an integer output stores: the number, and how far off it may be."""
    name, one = layer.types[2], v.value.dtype.type
    low, high = elements.RANGE[name]

    def store(x):
        x = np.rint(x / one(np.float32(layer.out_scale))) + one(layer.out_zero)
        return np.clip(np.where(np.isnan(x), 0, x).astype(np.float64), low, high)

    value = store(v.value)
    if v.bound is None:
        return Interval(value)
    return Interval(value, np.maximum(store(v.value + v.bound) - value, value - store(v.value - v.bound)))
