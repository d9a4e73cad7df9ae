# expect.py - what a run must store, by our own arithmetic: for each tensor that it writes, numbers and how far off they
# may be.
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass

import numpy as np

import binding as b
import elements
import special
import tail
from bounds import EXACT, Interval, Tolerance, stored
from sums import Geometry


@dataclass
class Expected:
    """One tensor that is written. `loose`: elements that may be NaN instead; `window`: of an argmax, the numbers that it
    chooses among, as an Interval of Windows.columns."""
    interval: Interval
    type: str
    loose: np.ndarray = None
    window: Interval = None


def wide(values, layer):
    """For the f64 row the oracle must be wider than what it checks."""
    return values.astype(np.longdouble) if layer.types[0] == "f64" else values


def finite_size(values):
    return np.where(np.isfinite(values), np.abs(values), 0.0)


# ---------------------------------------------------------------- sums


class Sums:
    """The layer's convolution in whatever direction, on values, on bounds and on what is not finite."""

    def __init__(self, layer):
        self.layer, self.geometry = layer, Geometry(layer)
        self.gathers = layer.transposed == (layer.direction == b.BACKWARD_DATA)
        self.pad = layer.pad_value if layer.pad_mode == "constant" else 0.0
        if layer.pad_mode == "constant" and layer.row != "quantised":
            self.pad = float(elements.rounded(np.array([self.pad]), layer.types[0])[0])
        if layer.row == "quantised":
            self.pad = (self.pad if layer.pad_mode == "constant" else layer.zero_points[0]) - layer.zero_points[0]

    def of(self, x, w, pad):
        g = self.geometry
        if self.gathers:
            return g.gather(x, g.weights(w, self.layer.flip), pad)
        return g.scatter(x, g.weights(w, self.layer.flip))

    def data(self, x, w, tolerance, steps=0):
        """x: an Interval of the tensor that is read with weights w; `steps` more roundings follow."""
        value = self.of(x.value, w, self.pad)
        if tolerance.exact:
            return Interval(value)
        gamma = tolerance.gamma(self.layer.products() + steps)
        size = gamma * finite_size(x.value) + (0 if x.bound is None else (1 + gamma) * x.bound)
        size = size.astype(np.float64)
        pad = gamma * abs(self.pad)
        if tolerance.mixes:  # a tap on padding counts as if it met the largest input of its channel
            pad = np.maximum(pad, size.max(axis=tuple(range(2, size.ndim)), initial=0))
        return Interval(value, self.of(size, finite_size(w).astype(np.float64), pad))

    def special_data(self, x, w):
        """(values, where NaN is right too)"""
        value = special.sums(lambda a, c: self.of(a, c, 0.0), x, w)
        lost = (~np.isfinite(w)).astype(np.float64)
        if self.gathers:
            return value, self.of(np.zeros(x.shape), lost, 1.0) > 0.5
        return value, self.of(np.ones(x.shape), lost, 0.0) > -1 if lost.any() else None

    def special_weights_gradient(self, big, small):
        g, flip = self.geometry, self.layer.flip
        value = special.sums(lambda a, c: g.weights_gradient(a, c, flip), big, small)
        lost = (~np.isfinite(small)).astype(np.float64)
        return value, g.weights_gradient(np.zeros(big.shape), lost, flip, 1.0) > 0.5

    def weights_gradient(self, big, small, tolerance):
        g, flip = self.geometry, self.layer.flip
        value = g.weights_gradient(big, small.value, flip, self.pad)
        if tolerance.exact:
            return Interval(value)
        gamma = tolerance.gamma(self.layer.products())
        size = gamma * finite_size(small.value) + (0 if small.bound is None else (1 + gamma) * small.bound)
        return Interval(value, g.weights_gradient(finite_size(big), size, flip, abs(self.pad)))


# ---------------------------------------------------------------- forward


def broadcast(vector, dims):
    return vector.reshape((1, -1) + (1,) * dims)


def float_tail_input(layer, data, x, residual, tolerance):
    """sum scale + bias + residual_scale (residual - zero point), of the float and image rows."""
    steps = layer.scale + layer.bias + 2 * (residual is not None)
    v = Sums(layer).data(x, data["weights"], tolerance, steps)
    value, off, gamma = v.value, v.bound, tolerance.gamma(layer.products() + steps)
    if layer.scale:
        scale = broadcast(data["scale"], layer.dims)
        value, off = value * scale, None if off is None else off * finite_size(scale)
    added = [broadcast(data["bias"], layer.dims)] if layer.bias else []
    if residual is not None:
        added.append(layer.residual_scale * (residual.value - layer.residual_zero))
        if off is not None:
            off = off + abs(layer.residual_scale) * residual.off()
    for one in added:
        value = value + one
        if off is not None:
            off = off + gamma * finite_size(one)
    return Interval(value, off)


def special_tail_input(layer, data, x, residual):
    value, loose = Sums(layer).special_data(x.value, data["weights"])
    with np.errstate(invalid="ignore"):
        if layer.scale:
            value = value * broadcast(data["scale"], layer.dims)
        if layer.bias:
            value = value + broadcast(data["bias"], layer.dims)
        if residual is not None:
            value = value + layer.residual_scale * (residual.value - layer.residual_zero)
    return value, loose


def quantised_tail_input(layer, data, x, residual):
    """s32 sums modulo 2^32, then f32; None beside the f32 numbers where integers are stored as they are."""
    weights = data["weights"] - (channel_zeros(layer, data) if layer.channel_zeros else layer.zero_points[1])
    sums = Sums(layer).of(x.value - layer.zero_points[0], weights, Sums(layer).pad)
    sums = np.rint(sums).astype(np.int64)
    if layer.bias:
        sums = sums + broadcast(data["bias"], layer.dims).astype(np.int64)
    sums = (sums & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    v = sums.astype(np.float32)
    if layer.scale:
        v = v * broadcast(data["scale"], layer.dims).astype(np.float32)
    if residual is not None:
        r = residual.value.astype(np.float32) - np.float32(layer.residual_zero)
        v = v + np.float32(layer.residual_scale) * r
    return sums, v


def channel_zeros(layer, data):
    """The zero points of output channels, as the weights have these."""
    zeros = data["weights_zero_point"]
    if not layer.transposed:
        return zeros.reshape((-1, 1) + (1,) * layer.dims)
    of_group = zeros.reshape(layer.groups, 1, layer.out_channels // layer.groups)
    shape = (layer.in_channels, layer.out_channels // layer.groups) + (1,) * layer.dims
    return np.repeat(of_group, layer.in_channels // layer.groups, 1).reshape(shape)


def alpha_of(layer, data):
    return broadcast(data["slope"], layer.dims) if layer.activation == "prelu" else layer.alpha


def stays_integer(layer):
    return (layer.types[2] == "s32" and not layer.scale and layer.residual is None and layer.activation == "none" and
            layer.pool is None and layer.out_scale == 1 and layer.out_zero == 0)


def forward_layer(layer, data, x, residual, tolerance, mode, saves):
    """(the output before it is stored, loose); adds what `saves` (of pre, argmax) wants to the dictionary."""
    loose = None
    if layer.row == "quantised":
        sums, v = quantised_tail_input(layer, data, x, residual)
        if stays_integer(layer):
            v = Interval(sums.astype(np.float64))
            if "pre" in saves:
                saves["pre"] = Expected(Interval(sums.astype(np.float32).astype(np.float64)), "f32")
            return v, None
        if layer.activation in tail.LIBRARY:
            tolerance = Tolerance(1, 2.0**-24)
            v = Interval(v.astype(np.float64), np.zeros(v.shape))
        else:
            tolerance, v = EXACT, Interval(v)
    elif mode == "special":
        value, loose = special_tail_input(layer, data, x, residual)
        bound = float_tail_input(layer, {k: finite_size(t) for k, t in data.items()},
                                 Interval(finite_size(x.value), np.zeros(x.value.shape)),
                                 None if residual is None else Interval(finite_size(residual.value)), tolerance).bound
        v = Interval(value, np.where(np.isfinite(value), bound, 0))
    else:
        v = float_tail_input(layer, data, x, residual, tolerance)
    if "pre" in saves:
        name = layer.type_of("pre")
        saves["pre"] = Expected(Interval(v.value.astype(np.float64)) if layer.row == "quantised" else stored(v, name),
                                name, loose)
    with np.errstate(invalid="ignore"):
        after = tail.activated(v, layer, alpha_of(layer, data), tolerance)
        out, argmax = tail.pooled(after, layer, tolerance)
    if "argmax" in saves and argmax is not None:
        windows = tail.Windows(layer)
        among = Interval(windows.columns(after.value, np.nan), windows.columns(after.off(), 0.0))
        saves["argmax"] = Expected(Interval(argmax.astype(np.float64)), "s32", None, among)
    if loose is not None and layer.pool is not None:
        windows = tail.Windows(layer)
        loose = windows.shaped(windows.columns(loose.astype(np.float64), 0.0).max(2)) > 0.5
    return out, loose


def finished(layer, out):
    """As the output's type holds it."""
    name = layer.types[2]
    if not elements.is_integer(name):
        return stored(Interval(out.value.astype(np.float64), out.bound) if layer.row == "quantised" else out, name)
    return out if layer.row == "quantised" and stays_integer(layer) else tail.quantised(out, layer)


def beyond(interval, name):
    """Whether some number may not be finite once it is stored."""
    if elements.is_integer(name):
        return False
    return not (np.abs(interval.value) + interval.off() < elements.LARGEST[name]).all()


class Unknown(Exception):
    """Why the oracle does not know what is right."""


def forward(layers, data, save, tolerances, mode):
    """{(which, layer): Expected} of a chain; data[i][which] are values."""
    expected, outputs = {}, []
    x = chain_input = Interval(wide(data[0]["input"], layers[0]))
    for i, layer in enumerate(layers):
        read = {which: wide(values, layer) for which, values in data[i].items()}
        residual = None
        if layer.residual is not None:
            residual = (Interval(read["residual"]) if layer.residual == "buffer" else
                        chain_input if layer.residual == "input" else outputs[layer.residual])
        if layer.row == "quantised" and not (x.certain() and (residual is None or residual.certain())):
            raise Unknown("a quantised layer reads what may be off by one")
        saves = {save: None} if save == "pre" or (save == "argmax" and layer.pool and layer.pool.kind == "max") else {}
        out, loose = forward_layer(layer, read, x, residual, tolerances[i], mode, saves)
        x = finished(layer, out)
        if mode != "special" and beyond(x, layer.types[2]) and (tolerances[i].exact or i + 1 < len(layers)):
            raise Unknown("an output that is read or exact is beyond its type")
        outputs.append(x)
        for which, saved in saves.items():
            expected[which, i] = saved
    expected["output", len(layers) - 1] = Expected(x, layers[-1].types[2], loose)
    return expected


# ---------------------------------------------------------------- gradients


def gradient_of_values(layer, data, save, tolerance):
    """(the gradient of what the activation is given, how large its own errors' terms are); None for no such step."""
    g = wide(data["output"], layer)
    if layer.activation == "none" and layer.pool is None:
        return g, None
    sums = g
    if layer.pool is not None:
        windows = tail.Windows(layer)
        shape = windows.places.shape
        if layer.pool.kind == "avg":
            weights = windows.inside / windows.divisor
        else:
            chosen = data["argmax"] if save == "argmax" else windows.argmax(
                tail.activate(data["pre"], layer.activation, alpha_of(layer, data)))
            flat = chosen.reshape(list(chosen.shape[:2]) + [1, shape[1]])
            weights = (np.arange(shape[0])[None, None, :, None] == flat).astype(np.float64)
        sums = windows.spread(g.astype(np.float64), weights)
        size = windows.spread(np.abs(g).astype(np.float64), weights)
        sums, size = (v.reshape(list(g.shape[:2]) + layer.convolved_size()) for v in (sums, size))
    else:
        size = np.abs(g)
    if layer.activation != "none":
        factor = tail.slope(data["pre"], layer.activation, alpha_of(layer, data))
        # A slope is a difference of numbers up to 1: a few roundings of those, whatever is left of them.
        rough = layer.activation not in ("relu", "clip", "lrelu", "prelu")
        sums, size = sums * factor, size * (np.abs(factor) + (1.0 if rough else 0))
    taps = 1 if layer.pool is None else int(np.prod(layer.pool.window))
    return sums, 16 * np.sqrt(taps) * tolerance.unit * size


def stepped(layer, values, own, factor, tolerance):
    """The gradient of values times a factor, as the step before the gradient's kernel stores it."""
    value = values * factor
    if tolerance.exact:
        return Interval(elements.rounded(value, layer.types[2]))
    size = 0 if own is None else np.abs(factor) * own
    return stored(Interval(value, (size + 2 * tolerance.unit * np.abs(value)).astype(np.float64)), layer.types[2])


def gradients(layer, data, save, tolerance, mode):
    sums, expected = Sums(layer), {}
    values, own = gradient_of_values(layer, data, save, tolerance)
    if own is None and not layer.scale:
        g = Interval(values, None if tolerance.exact else np.zeros(values.shape))
    else:
        g = stepped(layer, values, own, broadcast(data["scale"], layer.dims) if layer.scale else 1.0, tolerance)
    if layer.residual is not None:
        expected["residual_gradient", 0] = Expected(stepped(layer, values, own, layer.residual_scale, tolerance),
                                                    layer.types[2])
    if layer.direction == b.BACKWARD_DATA:
        w = wide(data["weights"], layer)
        if mode == "special":
            value, loose = sums.special_data(g.value, w)
            bound = sums.data(Interval(finite_size(g.value)), finite_size(w), tolerance).bound
            v = Interval(value, np.where(np.isfinite(value), bound, 0))
        else:
            v, loose = sums.data(g, w, tolerance), None
        expected["input", 0] = Expected(stored(v, layer.types[0]), layer.types[0], loose)
        return expected
    x, loose = wide(data["input"], layer), None
    if mode == "special":
        big, small = (g.value, x) if layer.transposed else (x, g.value)
        value, loose = sums.special_weights_gradient(big, small)
        bound = sums.weights_gradient(finite_size(big), Interval(finite_size(small)), tolerance).bound
        v = Interval(value, np.where(np.isfinite(value), bound, 0))
    elif layer.transposed:  # the small tensor is the layer's input, the big one the gradient
        v = transposed_weights_gradient(sums, x, g, tolerance)
    else:
        v = sums.weights_gradient(x, g, tolerance)
    expected["weights", 0] = Expected(stored(v, layer.types[1]), layer.types[1], loose)
    if layer.bias:
        expected["bias", 0] = bias_gradient(layer, values, own, tolerance)
    return expected


def bias_gradient(layer, values, own, tolerance):
    """Of values that may have been rounded to the output's type before."""
    axes = (0,) + tuple(range(2, values.ndim))
    if tolerance.exact:
        return Expected(stored(Interval(values.sum(axes)), layer.bias_type), layer.bias_type)
    off = 0 if own is None else stored(Interval(values, own.astype(np.float64)), layer.types[2]).bound
    count = values.size // max(values.shape[1], 1)
    bound = (tolerance.gamma(count) * finite_size(values) + off).sum(axes).astype(np.float64)
    return Expected(stored(Interval(values.sum(axes), bound), layer.bias_type), layer.bias_type)


def transposed_weights_gradient(sums, x, g, tolerance):
    flip, geometry = sums.layer.flip, sums.geometry
    value = geometry.weights_gradient(g.value, x, flip)
    if tolerance.exact:
        return Interval(value)
    gamma = tolerance.gamma(sums.layer.products())
    size = gamma * finite_size(g.value) + (1 + gamma) * g.off()
    return Interval(value, geometry.weights_gradient(size, finite_size(x), flip))


def expect(layers, data, save, tolerances, mode):
    if layers[0].direction == b.FORWARD:
        return forward(layers, data, save, tolerances, mode)
    return gradients(layers[0], data[0], save, tolerances[0], mode)
