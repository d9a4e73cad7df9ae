"""Networks drawn at random: convolutions, residuals, gates, concatenations, enlargements and arithmetic, any value read by any number of
others or given out by the model, against ONNX Runtime's own provider."""

import numpy as np
import pytest
from onnx import TensorProto

from conftest import make_model, with_provider, without
from test_regions import weights


class Network:
    """A graph that grows by one operation at a time. Values are (name, channels, halvings of the size)."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.values = [], {"zero": np.float32(0), "six": np.float32(6)}, [("x", 3, 0)]
        for _ in range(int(self.random.integers(6, 18))):
            self.random.choice([self.conv, self.conv, self.conv, self.arithmetic, self.activation, self.two, self.gate, self.concat, self.larger])()
        used = {name for _, inputs, _, _ in self.nodes for name in inputs}
        ends = [value[0] for value in self.values[1:] if value[0] not in used]
        inner = [value[0] for value in self.values[1:] if value[0] in used and self.random.random() < .1]
        self.outputs = ends + inner

    def pick(self, wanted=lambda value: True):
        """A value, rather one of the last."""
        fitting = [value for value in self.values if wanted(value)]
        return fitting[max(0, len(fitting) - 1 - int(self.random.exponential(1.5)))] if fitting else None

    def constant(self, array):
        self.constants["k%d" % len(self.constants)] = np.asarray(array, np.float32)
        return list(self.constants)[-1]

    def node(self, kind, inputs, channels, halvings, **attributes):
        name = "v%d" % len(self.nodes)
        self.nodes.append((kind, inputs, [name], attributes))
        self.values.append((name, channels, halvings))
        return name

    def conv(self):
        x, channels, halvings = self.pick()
        kernel, depthwise = int(self.random.choice([1, 1, 3])), channels > 3 and self.random.random() < .3
        outputs = channels if depthwise else int(self.random.choice([4, 8, 16, 24, 48]))
        stride = 2 if halvings < 3 and self.random.random() < .3 else 1
        w = self.constant(weights(self.random, outputs, 1 if depthwise else channels, kernel, kernel))
        self.node("Conv", [x, w], outputs, halvings + stride - 1, pads=[kernel // 2] * 4, strides=[stride] * 2, group=channels if depthwise else 1)

    def arithmetic(self):
        x, channels, halvings = self.pick()
        shape = [(), (1,), (channels, 1, 1), (1, channels, 1, 1)][self.random.integers(4)]
        operands = [x, self.constant(.5 + self.random.random(shape))]
        kind = str(self.random.choice(["Add", "Mul", "Sub", "Div"]))
        self.node(kind, operands if kind in ("Sub", "Div") else list(self.random.permutation(operands)), channels, halvings)

    def activation(self):
        x, channels, halvings = self.pick()
        kind, more = [("Relu", []), ("Clip", ["zero", "six"]), ("HardSwish", []), ("LeakyRelu", []), ("HardSigmoid", []), ("Sigmoid", [])][self.random.integers(6)]
        self.node(kind, [x] + more, channels, halvings)

    def two(self):
        a = self.pick()
        b = self.pick(lambda value: value[1:] == a[1:])
        self.node(str(self.random.choice(["Add", "Mul", "Sub"])), [a[0], b[0]], *a[1:])

    def gate(self):
        x, channels, halvings = self.pick()
        mean = self.node("GlobalAveragePool", [x], channels, halvings)
        conv = self.node("Conv", [mean, self.constant(weights(self.random, channels, channels, 1, 1))], channels, halvings)
        gate = self.node(str(self.random.choice(["HardSigmoid", "Sigmoid"])), [conv], channels, halvings)
        del self.values[-3:]  # of one pixel
        self.node("Mul", list(self.random.permutation([x, gate])), channels, halvings)

    def concat(self):
        a = self.pick()
        b = self.pick(lambda value: value[2] == a[2])
        self.node("Concat", [a[0], b[0]], a[1] + b[1], a[2], axis=1)

    def larger(self):
        value = self.pick(lambda value: value[2] > 0)
        if value:
            self.node("Resize", [value[0], "", self.constant([1, 1, 2, 2])], value[1], value[2] - 1, mode="nearest",
                      coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@pytest.mark.parametrize("seed", range(60))
def test_random_network(seed):
    network = Network(seed)
    model = make_model(network.nodes, {"x": (TensorProto.FLOAT, ("N", 3, "H", "W"))}, network.constants, outputs=network.outputs)
    ours, theirs = with_provider(model), without(model)
    for batch, height, width in ((1, 16, 24), (2, 8, 8), (1, 56, 40)):
        feed = {"x": network.random.standard_normal((batch, 3, height, width), dtype=np.float32)}
        for name, a, b in zip(network.outputs, ours.run(None, feed), theirs.run(None, feed)):
            scale = np.abs(b).max()
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * max(1, scale), err_msg="%s of %s" % (name, network.nodes))
