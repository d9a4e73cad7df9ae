# draw.py - random problems over everything that a token says, small and of the sizes at which kernels change their ways;
# and sizes at the ends of 64 bits.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

import binding as b
from problem import Layer, Pool

ROWS = [(("f32", "f32", "f32"), 34), (("f64", "f64", "f64"), 6), (("f16", "f16", "f16"), 8),
        (("f16", "f16", "f32"), 4), (("bf16", "bf16", "bf16"), 8), (("bf16", "bf16", "f32"), 4),
        (("s8", "s8", "s32"), 4), (("u8", "s8", "u8"), 4), (("u8", "u8", "s8"), 3), (("s8", "u8", "f32"), 3),
        (("s8", "s8", "s8"), 4), (("u8", "s8", "s32"), 3), (("u8", "s8", "f32"), 3), (("u8", "f32", "u8"), 4),
        (("u8", "f32", "f32"), 2), (("u16", "f32", "u16"), 2), (("u16", "f32", "u8"), 1), (("u16", "f32", "f32"), 1)]
CHANNELS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 40, 48, 64, 65, 72, 96]
MOST_PRODUCTS, MOST_ELEMENTS = 300_000, 40_000
EDGES = [2**k + d for k in (15, 16, 24, 31, 32, 33, 40, 47, 48, 59, 60, 61, 62, 63) for d in (-1, 0, 1)]
EDGES = [v for v in EDGES if v < 2**63] + [3037000499, 3037000500, 274177, 67280421310721, 8388614, 4194306]


class Draw:
    """One case's choices; `random` is a random.Random."""

    def __init__(self, random, knows=lambda token: True):
        self.random, self.knows = random, knows

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def between(self, low, high):
        return self.random.randint(low, high)

    def one_of(self, values):
        return values[self.random.randrange(len(values))]

    # ------------------------------------------------------------ a layer

    def layer(self):
        while True:
            layer = self._layer()
            if fits(layer):
                return layer

    def _layer(self):
        dims = self.one_of([1, 2, 2, 2, 2, 3])
        types = self.random.choices([row for row, _ in ROWS], [weight for _, weight in ROWS])[0]
        layer = Layer([1] * dims, types=types)
        if layer.row == "float":
            layer.direction = self.one_of([b.FORWARD, b.FORWARD, b.FORWARD, b.BACKWARD_DATA, b.BACKWARD_WEIGHTS])
        layer.transposed = self.chance(22)
        self._sizes(layer)
        self._padding(layer)
        layer.flip = self.chance(12)
        layer.separable = self.chance(6)
        first = self.between(0, 1)
        layer.layouts = (first, self.between(0, 1), first if self.chance(75) else 1 - first)
        self._zero_points(layer)
        if layer.direction == b.FORWARD:
            self._epilogue(layer)
        else:
            self._gradient_epilogue(layer)
        self._strides(layer)
        return layer

    def _sizes(self, layer):
        dims = layer.dims
        layer.batch = self.one_of([1, 1, 1, 2, 2, 3, 5]) if not self.chance(1) else 0
        kind = self.one_of(["dense", "dense", "grouped", "depthwise", "small"])
        if kind == "depthwise":
            layer.groups = self.one_of(CHANNELS)
            layer.in_channels, layer.out_channels = layer.groups, layer.groups * self.one_of([1, 1, 1, 2, 3])
        else:
            layer.groups = self.between(2, 6) if kind == "grouped" else 1
            choose = (lambda: self.between(1, 6)) if kind == "small" else (lambda: self.one_of(CHANNELS))
            layer.in_channels, layer.out_channels = layer.groups * choose(), layer.groups * choose()
        if self.chance(1.5) and self.knows("fwd:c0,i3"):
            setattr(layer, self.one_of(["in_channels", "out_channels"]), 0)
        largest = {1: 200, 2: 30, 3: 9}[dims]
        layer.input_size = [self.between(1, self.one_of([3, largest // 3 + 1, largest])) for _ in range(dims)]
        if self.chance(0.7) and self.knows("fwd:c0,i3"):
            layer.input_size[self.between(0, dims - 1)] = 0
        square = self.one_of([1, 1, 2, 3, 3, 3, 5, 7])
        layer.kernel = [square] * dims if self.chance(70) else [self.between(1, 6) for _ in range(dims)]
        layer.stride = self._axes(dims, [1, 1, 1, 2, 2, 3, 4])
        layer.dilation = self._axes(dims, [1, 1, 1, 1, 2, 3])
        if layer.transposed and self.chance(40):
            layer.output_padding = [self.between(0, max(s, d) - 1) for s, d in zip(layer.stride, layer.dilation)]

    def _axes(self, dims, values):
        first = self.one_of(values)
        return [first] * dims if self.chance(75) else [self.one_of(values) for _ in range(dims)]

    def _padding(self, layer):
        if self.chance(70):
            wide = self.chance(10)  # beyond kernel and input
            most = [12 if wide else d * (k - 1) for d, k in zip(layer.dilation, layer.kernel)]
            layer.pad_begin = [self.between(0, m) for m in most]
            layer.pad_end = list(layer.pad_begin) if self.chance(60) else [self.between(0, m) for m in most]
        if self.chance(6) and self.knows("fwd:i3,p-1"):
            axis, pads = self.between(0, layer.dims - 1), self.one_of([layer.pad_begin, layer.pad_end])
            pads[axis] = -self.between(1, 4)
        if self.chance(40):
            layer.pad_mode = self.one_of(b.PAD_MODES)
        if layer.pad_mode == "constant" and layer.transposed:
            layer.pad_mode = "zero"
        if layer.pad_mode == "constant":
            low, high = {"s8": (-128, 127), "u8": (0, 255), "u16": (0, 65535)}.get(layer.types[0], (-8, 8))
            layer.pad_value = float(self.between(low, high))

    def _zero_points(self, layer):
        if layer.row == "quantised" and self.chance(60):
            ends = {"u8": (0, 255), "s8": (-128, 127)}
            layer.zero_points = tuple(self.between(*ends[t]) if self.chance(70) else 0 for t in layer.types[:2])
            if self.chance(25) and self.knows("fwd:i1:s8:wz=channel"):
                layer.zero_points, layer.channel_zeros = (layer.zero_points[0], 0), True

    # Any order of axes, each stepping over those inside by some margin; inputs that are only read may overlap.
    def _strides(self, layer):
        for which in ("input", "weights", "output"):
            if not self.chance(12):
                continue
            shape = layer.shape(which)
            reads = which not in written(layer) and not (which == "output" and layer.residual)  # its gradient's strides
            anyhow = reads and which != "weights" and self.knows("fwd:i3:xs=0.1.-1")
            if reads and which != "weights" and self.chance(35):
                least = [0, 0, -1, -5, -40] if anyhow else []
                layer.strides[which] = [self.one_of([1, 1, 2, 3, 7, 16, 64] + least) for _ in shape]
                continue
            order, strides, reach = list(range(len(shape))), [0] * len(shape), 1
            self.random.shuffle(order)
            if self.chance(60):
                dense = layer.dense_strides(which)
                order.sort(key=lambda axis: dense[axis])
            for axis in order:
                strides[axis] = reach + self.one_of([0, 0, 0, 1, 2, 3, 13])
                reach = strides[axis] * max(shape[axis], 1)
            if which == "weights" and reads and self.chance(25):
                strides[0] = 0
            if anyhow and self.chance(30):
                strides = [-s if self.chance(40) else s for s in strides]
            layer.strides[which] = strides

    # ------------------------------------------------------------ its epilogue

    def _epilogue(self, layer):
        integers = layer.types[2] in ("s32", "s8", "u8", "u16")
        layer.scale, layer.bias = self.chance(25), self.chance(50)
        if self.chance(20):
            layer.residual = "buffer"
            if self.chance(50):
                layer.residual_scale = self.one_of([0.5, -1.0, 2.0, float(np.float32(0.3)), -3.0])
        low, high = {"s8": (-128, 127), "s32": (-100000, 100000), "u16": (0, 65535)}.get(layer.types[2], (0, 255))
        if integers and layer.residual and self.chance(50):
            layer.residual_zero = self.between(low, high)
        if integers and self.chance(40):
            layer.out_scale = float(np.float32(2.0**self.between(-6, 6) * self.one_of([1, 1, 1.3, 0.77])))
        if integers and self.chance(40):
            layer.out_zero = self.between(low, high)
        if self.chance(55):
            self._activation(layer)
        if self.chance(15):
            self._pool(layer)

    def _activation(self, layer):
        young = self.knows("fwd:i1:prelu") and (layer.row != "image" or self.knows("fwd:i1:u8-f32-u8:prelu"))
        layer.activation = self.one_of(b.ACTIVATIONS[1:12 if young else 9] + ["relu", "relu", "clip"])
        if layer.activation == "clip":
            layer.alpha = self.one_of([1.0, 2.0, 6.0, 20.0, float(np.float32(0.7))])
        if layer.activation in ("lrelu", "elu"):
            layer.alpha = float(np.float32(self.one_of([0.01, 0.2, 0.5, 1.5, 1.0])))

    def _pool(self, layer):
        dims = layer.dims
        window = self._axes(dims, [1, 2, 2, 3, 3, 4])
        stride = list(window) if self.chance(50) else self._axes(dims, [1, 2, 3])
        begin = [self.between(0, w - 1) if self.chance(40) else 0 for w in window]
        end = list(begin) if self.chance(60) else [self.between(0, w - 1) for w in window]
        kind = self.one_of(["max", "avg"])
        dilation = self._axes(dims, [2, 2, 3]) if self.chance(15) else [1] * dims
        layer.pool = Pool(kind, window, stride, begin, end, kind == "avg" and self.chance(40), dilation, self.chance(20))

    def _gradient_epilogue(self, layer):
        layer.bias = layer.direction == b.BACKWARD_WEIGHTS and self.chance(50)
        if self.chance(15):
            self._activation(layer)
        if self.chance(12):
            self._pool(layer)
        if self.chance(15) and self.knows("bwd_d:i1:scale"):
            layer.scale = self.chance(70)
            if self.chance(50):
                layer.residual, layer.residual_scale = "buffer", self.one_of([1.0, 0.5, -1.0])
        if layer.direction == b.BACKWARD_WEIGHTS and layer.types[0] in ("f16", "bf16") and self.chance(40) and \
                self.knows("bwd_w:i1:bf16-f32-bf16"):
            layer.types = (layer.types[0], "f32", layer.types[0])

    # ------------------------------------------------------------ chains, edges

    def chain(self):
        """Two or three forward layers, each reading what the one before writes."""
        while True:
            layers = [self._layer()]
            first = layers[0]
            if first.direction != b.FORWARD or first.types[0] != first.types[2] or first.row == "image":
                continue
            if 0 in first.input_size + [first.in_channels, first.out_channels]:
                continue
            first.strides.pop("output", None)
            while len(layers) < 2 or (len(layers) < 3 and self.chance(40)):
                layers.append(self._next(layers))
            layers[-1].strides = {w: s for w, s in layers[-1].strides.items() if w == "weights"}
            if all(fits(layer) for layer in layers):
                return layers

    def _next(self, layers):
        before = layers[-1]
        layer = Layer(before.output_size(), types=before.types, batch=before.batch)
        layer.in_channels = before.out_channels
        layer.groups = self.one_of([1, 1, layer.in_channels])
        layer.out_channels = layer.groups * self.one_of([1, 1, 2, 4]) if layer.groups > 1 else self.one_of(CHANNELS[:12])
        layer.kernel = self._axes(layer.dims, [1, 1, 3, 3, 5])
        layer.stride = self._axes(layer.dims, [1, 1, 1, 2])
        layer.pad_begin = [k // 2 for k in layer.kernel]
        layer.pad_end = list(layer.pad_begin)
        layer.layouts = (before.layouts[2], self.between(0, 1), before.layouts[2])
        self._zero_points(layer)
        layer.bias = self.chance(60)
        if self.chance(60):
            self._activation(layer)
        if self.chance(10):
            self._pool(layer)
        whole = [layer.batch, layer.out_channels] + layer.convolved_size()
        same = [name for name, shape in [("input", layers[0].shape("input"))] +
                [(i, earlier.shape("output")) for i, earlier in enumerate(layers)] if shape == whole]
        if same and self.chance(60):
            layer.residual = self.one_of(same)
        return layer

    def edge(self):
        """A layer of which some sizes lie at the ends of 64 bits."""
        layer = self._layer()
        for _ in range(self.between(1, 3)):
            name = self.one_of(["stride", "stride", "dilation", "dilation", "pad_begin", "pad_end", "input_size", "batch",
                                "in_channels", "out_channels", "groups", "kernel", "strides", "output_padding", "pool"])
            value = self.one_of(EDGES) if self.chance(80) else self.between(1, 2**63 - 1)
            if name in ("pad_begin", "pad_end", "strides") and self.chance(20):
                value = -value
            if name in ("batch", "in_channels", "out_channels", "groups"):
                setattr(layer, name, value)
            elif name == "strides":
                which = self.one_of(["input", "weights", "output"])
                strides = layer.strides_of(which)
                strides[self.between(0, len(strides) - 1)] = value
                layer.strides[which] = strides
            elif name == "pool":
                if layer.pool is not None:
                    field = self.one_of(["window", "stride", "pad_begin", "pad_end", "dilation"])
                    getattr(layer.pool, field)[self.between(0, layer.dims - 1)] = value
            elif name != "output_padding" or layer.transposed:
                axes = list(getattr(layer, name))
                axes[self.between(0, layer.dims - 1)] = value
                setattr(layer, name, axes)
        layer.strides = {w: s for w, s in layer.strides.items() if max(s) < 2**63}
        return layer


def written(layer):
    return {b.FORWARD: ("output",), b.BACKWARD_DATA: ("input",), b.BACKWARD_WEIGHTS: ("weights",)}[layer.direction]


def elements_between(layer, which):
    """From a tensor's first element to its last."""
    return 1 + sum((size - 1) * abs(stride) for size, stride in zip(layer.shape(which), layer.strides_of(which)) if size)


def fits(layer):
    """Whether the layer is valid as far as sizes go, and small enough."""
    sizes = layer.input_size + layer.convolved_size() + layer.output_size()
    empty = 0 in sizes + [layer.in_channels, layer.out_channels]
    if min(sizes) < 0 or (empty and (layer.pool is not None or layer.pad_mode != "zero")):
        return False
    if any(result == 0 < size for result, size in zip(layer.convolved_size(), layer.input_size)):
        return False
    big = layer.convolved_size() if layer.transposed else layer.input_size
    crops = [max(-p, 0) + max(-q, 0) for p, q in zip(layer.pad_begin, layer.pad_end)]
    if any(crop and crop >= size for crop, size in zip(crops, big)):
        return False  # it may not crop everything
    if layer.pool is not None:  # no window may be empty
        pool = layer.pool
        if any(d > size and pad for d, size, pad in zip(pool.dilation, layer.convolved_size(), pool.pad_begin)):
            return False
    products, small = 1, layer.input_size if layer.transposed else layer.convolved_size()
    for size in layer.weights_shape() + small:
        products *= size
    if products * max(layer.batch, 1) > MOST_PRODUCTS:
        return False
    return all(elements_between(layer, which) <= MOST_ELEMENTS for which in ("input", "weights", "output")) and \
        elements_between(layer, "output") * 2 <= MOST_ELEMENTS
