# data.py - the numbers of a problem's tensors: random ones that spread over the output's range, small integers whose sums
# are exact, numbers of many magnitudes, and some that are not finite.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

import binding as b
import elements
import tail

MODES = ("random", "exact", "wide", "special")


def exactly(layers):
    """Whether small integers stay exact through these layers."""
    for layer in layers:
        if layer.row == "quantised":
            continue
        if layer.scale or layer.residual_scale != np.rint(layer.residual_scale) or layer.out_scale != 1:
            return False
        if layer.activation not in ("none", "relu") and not (layer.activation == "clip" and layer.alpha % 1 == 0):
            return False
        if layer.pool is not None and layer.pool.kind == "avg":
            return False
    return len(layers) < 3


def specially(layers):
    """Whether what is not finite has a meaning in them that is not left to kernels."""
    layer = layers[0]
    if len(layers) > 1 or layer.row != "float" or layer.pad_mode == "constant":
        return False
    if layer.direction != b.FORWARD and (layer.activation != "none" or layer.pool is not None):
        return False
    if layer.direction != b.FORWARD and (layer.scale or layer.residual is not None):
        return False
    return layer.activation in ("none", "relu", "clip", "lrelu")


def modes(layers):
    """The modes that say something about these layers."""
    if layers[0].row == "quantised":
        return ["random"]
    return (["random", "random", "wide"] + (["exact"] * 2 if exactly(layers) else []) +
            (["special"] if specially(layers) else []))


class Numbers:
    def __init__(self, layers, mode, seed):
        self.layers, self.mode, self.random = layers, mode, np.random.Generator(np.random.SFC64(seed))

    def values(self, layer, which):
        shape, name = layer.shape(which), layer.type_of(which)
        if which == "argmax":
            return self._argmax(layer)
        if layer.row == "quantised":
            values = self._quantised(layer, which, shape, name)
        elif self.mode == "exact":
            values = self._whole(layer, which, shape)
        else:
            values = self._spread(layer, which, shape, name)
        if which == "weights" and layer.separable:
            values = self._separable(values)
        if self.mode == "special" and which in ("input", "weights", "output") and self.random.random() < 0.6:
            values = self._special(values)
        return values

    def _integers(self, low, high, shape):
        return self.random.integers(int(low), int(high), shape, endpoint=True).astype(np.float64)

    def _whole(self, layer, which, shape):
        sums = max(1, layer.products())
        x, w = (2, 1) if len(self.layers) > 1 else (8, 8)
        if len(self.layers) > 1 and layer.types[2] in ("f16", "bf16"):  # so large that what lies between must round
            x = int(max(x, min(2**11 if layer.types[2] == "f16" else 2**8, 2**13 / np.sqrt(min(sums, 24)))))
        while sums * x * w > 2**22 and x * w > 1:
            x, w = max(x // 2, 1), max(w // 2, 1)
        image = layer.row == "image"
        if which in ("input", "output"):
            return self._integers(0 if image else -x, x, shape)
        if which == "weights":
            values = self._integers(-min(w, 2) if image else -w, min(w, 2) if image else w, shape)
            # What the next layer sums again must stay small.
            return values * (self.random.random(shape) < min(1.0, 24 / sums)) if len(self.layers) > 1 else values
        if which == "bias":
            return self._integers(0 if image else -8, 100 if image else 8, shape)
        return self._integers(0 if image else -8, 8, shape)

    def _spread(self, layer, which, shape, name):
        if elements.is_integer(name):
            return self._integers(*elements.RANGE[name], shape)
        values = self.random.uniform(-1, 1, shape)
        if self.mode == "wide" and which in ("input", "weights", "output"):
            values *= 2.0**self.random.integers(-6, 6, shape, endpoint=True)
        if which == "scale":
            return np.where(values < 0, values - 0.5, values + 0.5)
        if which == "slope":
            return values * 1.5
        if layer.row == "image":
            reach = min(elements.RANGE.get(layer.types[2], (0, 1))[1], 2**16) * layer.out_scale
            if which == "weights":
                return values * reach / (elements.RANGE[layer.types[0]][1] * np.sqrt(max(layer.products(), 1)))
            return values * reach / 2
        return values * (np.sqrt(3 / max(layer.products(), 1)) if which == "weights" and len(self.layers) > 1 else 1)

    def _quantised(self, layer, which, shape, name):
        if which in ("input", "weights", "weights_zero_point"):
            return self._integers(*elements.RANGE[name], shape)
        root = np.sqrt(max(layer.products(), 1))
        if which == "bias":
            return self._integers(-5000 * root, 5000 * root, shape)
        if which == "scale":
            reach = min(elements.RANGE.get(layer.types[2], (0, 1000))[1], 1e4) * layer.out_scale
            return self.random.uniform(-1, 1, shape) * reach / (5000 * root)
        if not elements.is_integer(name):
            return self.random.uniform(-1, 1, shape)
        low, high = elements.RANGE[name]
        return self._integers(max(low, -100000), min(high, 100000), shape)

    def _separable(self, values):
        """Outer products of each filter's first lines; what follows the first axis as signs, so that integers stay."""
        result = np.ones(values.shape)
        for axis in range(2, values.ndim):
            line = values[tuple(slice(None) if a in (0, 1, axis) else slice(0, 1) for a in range(values.ndim))]
            if axis > 2:
                line = np.where(line < 0, -1.0, 1.0)
            result = result * line
        return result

    def _special(self, values):
        if values.size:
            flat = values.reshape(-1)
            for _ in range(int(self.random.integers(1, 4))):
                flat[self.random.integers(values.size)] = (np.nan, np.inf, -np.inf)[self.random.integers(3)]
        return values

    def _argmax(self, layer):
        windows = tail.Windows(layer)
        n, k = layer.batch, layer.out_channels
        keys = self.random.random((n, k) + windows.inside.shape) * windows.inside - ~windows.inside
        return windows.shaped(keys.argmax(2).astype(np.float64))
