# sums.py - convolutions in NumPy. A convolution reads a big tensor and writes a small one; its adjoint, which a
# transposed layer and a gradient of the data are, reads the small one and writes the big one; the gradient of the
# weights reads both. Which input a tap reads is one table for each axis.
# SPDX-License-Identifier: Apache-2.0
import numpy as np


def padded_index(i, size, mode):
    """The index that coordinate i reads, -1 for padding: the pictures beside POLYCONV_PAD_*."""
    if 0 <= i < size:
        return i
    if mode in ("zero", "constant"):
        return -1
    if mode == "replicate":
        return 0 if i < 0 else size - 1
    if mode == "circular":
        return i % size
    period = 2 * size - 2 if mode == "reflect" else 2 * size
    if period == 0:
        return 0
    i %= period
    return i if i < size else (period - i if mode == "reflect" else period - 1 - i)


def read(layer, axis, size, o, r):
    """The big tensor's pixel of one axis that tap r reads for the small one's o; negative padding crops it first."""
    begin, end = (max(-pad[axis], 0) for pad in (layer.pad_begin, layer.pad_end))
    i = o * layer.stride[axis] + r * layer.dilation[axis] - max(layer.pad_begin[axis], 0)
    place = padded_index(i, size - begin - end, layer.pad_mode)
    return place if place < 0 else place + begin


class Geometry:
    """Of a layer: `places[t, p]` is the big tensor's pixel that tap t reads for the small one's pixel p; `count`, one
    behind the last, where that is padding."""

    def __init__(self, layer):
        big, small = layer.input_size, layer.convolved_size()
        if layer.transposed:
            big, small = small, big
        self.big, self.small, self.kernel, self.groups = big, small, layer.kernel, layer.groups
        places, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        for axis in range(layer.dims):
            table = np.array([[read(layer, axis, big[axis], o, r) for o in range(small[axis])]
                              for r in range(layer.kernel[axis])], np.int64).reshape(layer.kernel[axis], small[axis])
            reads = table >= 0
            places = (places[:, None, :, None] * big[axis] + table[None, :, None, :])
            inside = (inside[:, None, :, None] & reads[None, :, None, :])
            shape = places.shape
            places = places.reshape(shape[0] * shape[1], shape[2] * shape[3])
            inside = inside.reshape(places.shape)
        self.count = int(np.prod(big))
        self.places = np.where(inside, places, self.count)
        self.has_padding = not inside.all()

    def weights(self, w, flip):
        """[G, K/G, C/G * T]"""
        if flip:
            w = w[(slice(None), slice(None)) + (slice(None, None, -1),) * (w.ndim - 2)]
        return np.ascontiguousarray(w).reshape(self.groups, w.shape[0] // self.groups, int(np.prod(w.shape[1:])))

    def columns(self, big, pad):
        """[N, G, C/G * T, P]: what each tap of each pixel reads."""
        n, c = big.shape[:2]
        flat = np.empty((n, c, self.count + 1), big.dtype)
        flat[:, :, :-1] = big.reshape(n, c, self.count)
        flat[:, :, -1] = pad
        t, p = self.places.shape
        return flat.take(self.places.ravel(), axis=2).reshape(n, self.groups, c // self.groups * t, p)

    def gather(self, big, w, pad=0.0):
        """The convolution; w as weights() gives it."""
        out = w[None] @ self.columns(big, pad)
        return out.reshape([big.shape[0], w.shape[0] * w.shape[1]] + list(self.small))

    def scatter(self, small, w):
        """Its adjoint."""
        n = small.shape[0]
        t, p = self.places.shape
        parts = w.transpose(0, 2, 1)[None] @ small.reshape(n, self.groups, w.shape[1], p)
        channels = parts.shape[1] * parts.shape[2] // t
        rows = np.arange(n * channels, dtype=np.int64)[:, None, None] * (self.count + 1)
        index, values = (rows + self.places[None]).ravel(), parts.ravel()
        size = n * channels * (self.count + 1)
        if values.dtype == np.float64:
            flat = np.bincount(index, values, size).astype(np.float64)  # of nothing it counts in integers
        else:
            flat = np.zeros(size, values.dtype)
            np.add.at(flat, index, values)
        return flat.reshape(n, channels, self.count + 1)[:, :, :-1].reshape([n, channels] + list(self.big))

    def weights_gradient(self, big, small, flip, pad=0.0):
        n, k = small.shape[:2]
        t, p = self.places.shape
        columns = self.columns(big, pad).transpose(1, 2, 0, 3)
        rows = columns.reshape(self.groups, columns.shape[1], n * p)
        sums = small.reshape(n, self.groups, k // self.groups, p).transpose(1, 2, 0, 3).reshape(self.groups, k // self.groups, n * p)
        w = (sums @ rows.transpose(0, 2, 1)).reshape([k, big.shape[1] // self.groups] + self.kernel)
        return w[(slice(None), slice(None)) + (slice(None, None, -1),) * (w.ndim - 2)] if flip else w
