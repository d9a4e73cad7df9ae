# others.py - the oracle itself against SciPy, PyTorch and ONNX Runtime, whichever are installed: two that agree are less
# likely to be wrong in the same way. polyconv has no part in it.
# SPDX-License-Identifier: Apache-2.0
import importlib
import random

import numpy as np

import binding as b
import tail
from draw import Draw
from expect import Sums

NUMPY_PADS = {"zero": "constant", "constant": "constant", "reflect": "reflect", "symmetric": "symmetric",
              "replicate": "edge", "circular": "wrap"}


def padded(layer, x):
    """The big tensor with its padding, by numpy.pad."""
    widths = [(0, 0), (0, 0)] + list(zip(layer.pad_begin, layer.pad_end))
    values = {"constant_values": layer.pad_value} if layer.pad_mode == "constant" else {}
    return np.pad(x, widths, NUMPY_PADS[layer.pad_mode], **values)


def filters(layer, w):
    return w[(slice(None), slice(None)) + (slice(None, None, -1),) * layer.dims] if layer.flip else w


# ---------------------------------------------------------------- SciPy: forward, by correlation of single planes


class SciPy:
    def __init__(self):
        self._correlate = importlib.import_module("scipy.signal").correlate

    def takes(self, layer):
        return layer.direction == b.FORWARD and not layer.transposed

    def run(self, layer, x, w):
        big, w = padded(layer, x), filters(layer, w)
        spread = np.zeros(list(w.shape[:2]) + [(k - 1) * d + 1 for k, d in zip(layer.kernel, layer.dilation)])
        spread[(slice(None), slice(None)) + tuple(slice(None, None, d) for d in layer.dilation)] = w
        steps = tuple(slice(None, None, s) for s in layer.stride)
        k, c = spread.shape[:2]
        planes = [[sum(self._correlate(big[n, m // (k // layer.groups) * c + i], spread[m, i], "valid", "direct")
                       for i in range(c))[steps] for m in range(k)] for n in range(big.shape[0])]
        return np.array(planes)


# ---------------------------------------------------------------- PyTorch: every direction, by differentiating


class PyTorch:
    def __init__(self):
        self._torch = importlib.import_module("torch")
        self._torch.set_num_threads(1)

    def takes(self, layer):
        return layer.pad_mode != "constant"

    def _convolve(self, layer, big, w):
        torch, functional = self._torch, self._torch.nn.functional
        for axis in range(layer.dims):
            pads = (layer.pad_begin[axis], layer.pad_end[axis])
            if layer.pad_mode == "zero":
                widths = [0] * (2 * (layer.dims - 1 - axis)) + list(pads)
                big = functional.pad(big, widths)
            else:
                places = np.pad(np.arange(big.shape[2 + axis]), pads, NUMPY_PADS[layer.pad_mode])
                big = big.index_select(2 + axis, torch.from_numpy(places))
        if layer.flip:
            w = w.flip(list(range(2, 2 + layer.dims)))
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[layer.dims - 1]
        result = convolve(big, w, None, layer.stride, 0, layer.dilation, layer.groups)
        small = layer.input_size if layer.transposed else layer.convolved_size()  # output padding may give more
        return result[(slice(None), slice(None)) + tuple(slice(0, n) for n in small)]

    def run(self, layer, first, second):
        """What is read: input and weights; output and weights; input and output."""
        torch = self._torch
        n, c, k = layer.batch, layer.in_channels, layer.out_channels
        big_shape = [n, k] + layer.convolved_size() if layer.transposed else [n, c] + layer.input_size
        weights = layer.direction == b.BACKWARD_WEIGHTS
        w = torch.zeros(layer.weights_shape(), dtype=torch.float64, requires_grad=True) if weights else \
            torch.from_numpy(second)
        gathers = layer.transposed == (layer.direction == b.BACKWARD_DATA)
        if gathers and not weights:
            return self._convolve(layer, torch.from_numpy(first), w).numpy()
        big, small = (second, first) if layer.transposed else (first, second)
        read = torch.from_numpy(big) if weights else torch.zeros(big_shape, dtype=torch.float64, requires_grad=True)
        result = self._convolve(layer, read, w)
        result.backward(torch.from_numpy(small if weights else first).reshape(result.shape))
        return (w if weights else read).grad.numpy()

    def activate(self, v, name, alpha):
        f, t = self._torch.nn.functional, self._torch.from_numpy(v)
        return {"relu": lambda: f.relu(t), "clip": lambda: t.clamp(0, alpha), "lrelu": lambda: f.leaky_relu(t, alpha),
                "tanh": lambda: t.tanh(), "sigmoid": lambda: t.sigmoid(), "gelu": lambda: f.gelu(t),
                "silu": lambda: f.silu(t), "hswish": lambda: f.hardswish(t)}[name]().numpy()


# ---------------------------------------------------------------- ONNX Runtime: forward, transposed or not, f32


class OnnxRuntime:
    def __init__(self):
        self._runtime, self._onnx = importlib.import_module("onnxruntime"), importlib.import_module("onnx")

    def takes(self, layer):
        return (layer.direction == b.FORWARD and layer.pad_mode == "zero" and layer.batch > 0 and
                not (layer.transposed and any(layer.output_padding)))

    def run(self, layer, x, w):
        helper, f32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        node = helper.make_node("ConvTranspose" if layer.transposed else "Conv", ["x", "w"], ["y"],
                                kernel_shape=layer.kernel, strides=layer.stride, dilations=layer.dilation,
                                group=layer.groups, pads=layer.pad_begin + layer.pad_end)
        w = np.ascontiguousarray(filters(layer, w))
        graph = helper.make_graph([node], "one", [helper.make_tensor_value_info(n, f32, list(v.shape))
                                                  for n, v in (("x", x), ("w", w))],
                                  [helper.make_tensor_value_info("y", f32, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        session = self._runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, {"x": x.astype(np.float32), "w": w.astype(np.float32)})[0].astype(np.float64)


# ---------------------------------------------------------------- the comparison


def ours(layer, first, second):
    sums, g = Sums(layer), Sums(layer).geometry
    if layer.direction != b.BACKWARD_WEIGHTS:
        return sums.of(first, second, sums.pad)
    big, small = (second, first) if layer.transposed else (first, second)
    return g.weights_gradient(big, small, layer.flip, sums.pad)


def plain_layer(draw):
    while True:
        layer = draw.layer()
        if layer.row == "float" and layer.batch > 0:
            layer.activation, layer.pool, layer.types, layer.strides = "none", None, ("f32",) * 3, {}
            layer.scale, layer.residual = False, None
            return layer


def check_activations(library, told):
    v = np.random.default_rng(1).uniform(-9, 9, 2000)
    for name, alpha in (("relu", 0), ("clip", 6.0), ("lrelu", 0.25), ("tanh", 0), ("sigmoid", 0), ("gelu", 0),
                        ("silu", 0), ("hswish", 0)):
        worst = float(np.abs(tail.activate(v, name, alpha) - library.activate(v, name, alpha)).max())
        if worst > 1e-12:
            told.append(f"PyTorch: {name} differs by {worst:.3g}")


def compare(count, seed):
    """Prints what differs; the number of differences."""
    libraries, told = {}, []
    for name, make in (("SciPy", SciPy), ("PyTorch", PyTorch), ("ONNX Runtime", OnnxRuntime)):
        try:
            libraries[name] = make()
        except ImportError as missing:
            print(f"others.py: {name} skipped: {missing}")
    compared = dict.fromkeys(libraries, 0)
    for index in range(count):
        layer = plain_layer(Draw(random.Random(f"others:{seed}:{index}"), lambda token: False))
        numbers = np.random.default_rng(index)
        reads = {b.FORWARD: ("input", "weights"), b.BACKWARD_DATA: ("output", "weights"),
                 b.BACKWARD_WEIGHTS: ("input", "output")}[layer.direction]
        first, second = (numbers.uniform(-1, 1, layer.shape(which)) for which in reads)
        expected = ours(layer, first, second)
        for name, library in libraries.items():
            if not library.takes(layer):
                continue
            compared[name] += 1
            found = library.run(layer, first, second).reshape(expected.shape)
            worst = float(np.abs(found - expected).max(initial=0))
            if not worst <= (2e-4 if name == "ONNX Runtime" else 1e-9):
                told.append(f"{name}: {layer.token()} differs by {worst:.3g}")
    if "PyTorch" in libraries:
        check_activations(libraries["PyTorch"], told)
    print("\n".join(told))
    print("others.py: " + ", ".join(f"{n} problems with {name}" for name, n in compared.items()) +
          f": {len(told)} differ")
    return len(told)
