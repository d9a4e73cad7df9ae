# problem.py - one layer as plain fields, its token (docs/problem-token.md) and its sizes, written from the documents and
# not from the library, so that both are compared.
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field

import binding as b

DIRECTIONS = {b.FORWARD: "fwd", b.BACKWARD_DATA: "bwd_d", b.BACKWARD_WEIGHTS: "bwd_w"}
QUANTISED = ("s8", "u8")
IMAGES = ("u8", "u16")
VECTORS = ("bias", "scale", "slope", "weights_zero_point")  # one number for each output channel


@dataclass
class Pool:
    kind: str  # max, avg
    window: list
    stride: list
    pad_begin: list
    pad_end: list
    include_pad: bool = False
    dilation: list = None
    ceil: bool = False

    def __post_init__(self):
        if self.dilation is None:
            self.dilation = [1] * len(self.window)

    def results(self, size, axis):
        """Of one axis."""
        reach = self.dilation[axis] * (self.window[axis] - 1) + 1
        room = size + self.pad_begin[axis] + self.pad_end[axis] - reach
        if not self.ceil or room < 0:
            return room // self.stride[axis] + 1
        count = -(-room // self.stride[axis]) + 1
        return count - 1 if (count - 1) * self.stride[axis] >= size + self.pad_begin[axis] else count


@dataclass
class Layer:
    input_size: list
    direction: int = b.FORWARD
    transposed: bool = False
    flip: bool = False
    separable: bool = False
    batch: int = 1
    in_channels: int = 1
    out_channels: int = 1
    groups: int = 1
    kernel: list = None
    stride: list = None
    dilation: list = None
    pad_begin: list = None
    pad_end: list = None
    output_padding: list = None
    pad_mode: str = "zero"
    pad_value: float = 0.0
    types: tuple = ("f32", "f32", "f32")
    layouts: tuple = (0, 0, 0)  # input, weights, output
    strides: dict = field(default_factory=dict)  # of input, weights, output where not dense
    zero_points: tuple = (0, 0)  # input, weights
    channel_zeros: bool = False  # the weights' zero points lie in a buffer, one for each output channel
    scale: bool = False
    bias: bool = False
    residual: object = None  # "buffer", "input" or a layer's number
    residual_scale: float = 1.0
    residual_zero: int = 0
    activation: str = "none"
    alpha: float = 0.0
    pool: Pool = None
    out_scale: float = 1.0
    out_zero: int = 0

    def __post_init__(self):
        for name, value in (("kernel", 1), ("stride", 1), ("dilation", 1), ("pad_begin", 0), ("pad_end", 0),
                            ("output_padding", 0)):
            if getattr(self, name) is None:
                setattr(self, name, [value] * self.dims)

    # ------------------------------------------------------------ what it is

    @property
    def dims(self):
        return len(self.input_size)

    @property
    def row(self):
        if self.types[1] == "f32" and self.types[0] in IMAGES:
            return "image"
        return "quantised" if self.types[0] in QUANTISED else "float"

    @property
    def bias_type(self):
        return {"quantised": "s32", "image": "f32"}.get(self.row, "f64" if self.types[0] == "f64" else "f32")

    def convolved_size(self):
        """Per axis, before pooling: what polyconv.h says below polyconv_problem."""
        sizes = []
        for a in range(self.dims):
            reach = self.dilation[a] * (self.kernel[a] - 1) + 1
            pads = self.pad_begin[a] + self.pad_end[a]
            if self.transposed:
                sizes.append((self.input_size[a] - 1) * self.stride[a] - pads + reach + self.output_padding[a])
            else:
                size = (self.input_size[a] + pads - reach) // self.stride[a] + 1
                sizes.append(max(size, 0) if self.input_size[a] == 0 else size)
        return sizes

    def output_size(self):
        sizes = self.convolved_size()
        if self.pool is None:
            return sizes
        return [self.pool.results(size, a) for a, size in enumerate(sizes)]

    def weights_shape(self):
        first, second = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels,
                                                                                       self.in_channels)
        return [first, second // self.groups] + self.kernel

    def shape(self, which):
        """Of one of the layer's tensors, N C spatial...; None where it has none."""
        if which == "input":
            return [self.batch, self.in_channels] + self.input_size
        if which == "weights":
            return self.weights_shape()
        if which in VECTORS:
            return [self.out_channels]
        if which in ("residual", "residual_gradient", "pre"):
            return [self.batch, self.out_channels] + self.convolved_size()
        return [self.batch, self.out_channels] + self.output_size()

    def type_of(self, which):
        if which in ("input", "weights", "output"):
            return self.types[("input", "weights", "output").index(which)]
        if which in ("residual", "residual_gradient"):
            return self.types[2]
        if which == "weights_zero_point":
            return self.types[1]
        if which == "bias":
            return self.bias_type
        if which == "argmax":
            return "s32"
        return "f64" if self.types[0] == "f64" else "f32"

    def dense_strides(self, which):
        shape = self.shape(which)
        last = self.layouts[("input", "weights", "output").index(which)]
        order = [0] + list(range(2, len(shape))) + [1] if last else list(range(len(shape)))
        strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis], step = step, step * max(shape[axis], 1)
        return strides

    def strides_of(self, which):
        return self.strides.get(which) or self.dense_strides(which)

    def products(self):
        """Of one sum, at most."""
        taps = 1
        for k in self.kernel:
            taps *= k
        k, c = self.weights_shape()[:2]
        if self.direction == b.BACKWARD_WEIGHTS:
            positions = self.batch
            for size in self.input_size if self.transposed else self.convolved_size():
                positions *= size
            return positions
        gathers = self.transposed == (self.direction == b.BACKWARD_DATA)
        return taps * (c if gathers else k // self.groups)

    # ------------------------------------------------------------ its token

    def token(self):
        fields = [f"n{self.batch}", f"c{self.in_channels}", f"k{self.out_channels}"]
        if self.groups != 1:
            fields.append(f"g{self.groups}")
        fields += ["i" + _times(self.input_size), "f" + _times(self.kernel)]
        for letter, values, default in (("s", self.stride, 1), ("d", self.dilation, 1), ("o", self.output_padding, 0)):
            if any(v != default for v in values):
                fields.append(letter + _times(values))
        if any(self.pad_begin + self.pad_end):
            fields.append("p" + _pads(self.pad_begin, self.pad_end))
        word = ("t" if self.transposed else "") + DIRECTIONS[self.direction]
        return ":".join([word, ",".join(fields)] + self._parts())

    def _parts(self):
        layouts = [("nchw", "nhwc")[self.layouts[0]], ("nchw", "nhwc")[self.layouts[2]]]
        parts = ["-".join(layouts), ("kcrs", "krsc")[self.layouts[1]], "-".join(self.types)]
        if self.pad_mode != "zero":
            value = f"={self.pad_value!r}" if self.pad_mode == "constant" else ""
            parts.append(f"pad={self.pad_mode}{value}".replace("e+", "e"))
        parts += [word for word in ("flip", "separable") if getattr(self, word)]
        parts += [f"{name}={v}" for name, v in zip(("xz", "wz"), self.zero_points) if v]
        parts += ["wz=channel"] if self.channel_zeros else []
        for name, which in (("xs", "input"), ("ws", "weights"), ("ys", "output")):
            if self.strides.get(which):
                parts.append(f"{name}=" + ".".join(map(str, self.strides[which])))
        parts += self._epilogue()
        return parts

    def _epilogue(self):
        words = [word for word in ("scale", "bias") if getattr(self, word)]
        if self.residual is not None:
            named = {"buffer": "", "input": "=input"}.get(self.residual, f"=layer{self.residual}")
            words.append("residual" + named)
        if self.activation in ("clip", "lrelu", "elu"):
            words.append(f"{self.activation}{self.alpha!r}".replace("e+", "e"))
        elif self.activation != "none":
            words.append(self.activation)
        if self.pool is not None:
            p = self.pool
            dilation = f"d{_times(p.dilation)}" if max(p.dilation) > 1 else ""
            words.append(f"{p.kind}pool{_times(p.window)}s{_times(p.stride)}p{_pads(p.pad_begin, p.pad_end)}{dilation}" +
                         ("i" if p.include_pad else "") + ("c" if p.ceil else ""))
        parts = ["+".join(words)] if words else []
        if self.residual_scale != 1:
            parts.append(f"rs={self.residual_scale!r}".replace("e+", "e"))
        if self.residual_zero:
            parts.append(f"rz={self.residual_zero}")
        if self.out_scale != 1 or self.out_zero:
            parts.append(f"q={self.out_scale!r}".replace("e+", "e") + (f"/{self.out_zero}" if self.out_zero else ""))
        return parts


def _times(values):
    return "x".join(map(str, values))


def _pads(begin, end):
    return _times(begin) if begin == end else _times(begin) + "/" + _times(end)


def from_struct(p):
    """The Layer of a polyconv_problem that the library has parsed."""
    n, e = p.spatial_dims, p.epilogue
    names = {number: name for name, number in b.TYPES.items()}
    pool = None
    if e.pool.kind:
        pool = Pool("max" if e.pool.kind == 1 else "avg", list(e.pool.window[:n]), list(e.pool.stride[:n]),
                    list(e.pool.pad_begin[:n]), list(e.pool.pad_end[:n]), bool(e.pool.count_include_pad),
                    list(p.pool_dilation[:n]), bool(p.pool_ceil))
    strides = {which: list(values[:n + 2]) for which, has, values in (
        ("input", p.has_input_strides, p.input_strides), ("weights", p.has_weights_strides, p.weights_strides),
        ("output", p.has_output_strides, p.output_strides)) if has}
    residual = {0: None, 1: "buffer", 2: "input"}.get(e.residual_from, e.residual_from - 16)
    return Layer(
        direction=p.direction, transposed=bool(p.transposed), flip=bool(p.flip), separable=bool(p.separable),
        batch=p.batch, in_channels=p.in_channels, out_channels=p.out_channels, groups=p.groups,
        input_size=list(p.input_size[:n]), kernel=list(p.kernel_size[:n]), stride=list(p.stride[:n]),
        dilation=list(p.dilation[:n]), pad_begin=list(p.pad_begin[:n]), pad_end=list(p.pad_end[:n]),
        output_padding=list(p.output_padding[:n]), pad_mode=b.PAD_MODES[p.pad_mode], pad_value=p.pad_value,
        types=(names[p.input_type], names[p.weights_type], names[p.output_type]),
        layouts=(p.input_layout, p.weights_layout, p.output_layout), strides=strides,
        zero_points=(p.input_zero_point, p.weights_zero_point), channel_zeros=bool(p.has_weights_zero_points),
        scale=bool(e.has_scale), bias=bool(e.has_bias),
        residual=residual, residual_scale=e.residual_scale, residual_zero=e.residual_zero_point,
        activation=b.ACTIVATIONS[e.activation], alpha=e.activation_alpha, pool=pool, out_scale=e.out_scale,
        out_zero=e.out_zero_point)
