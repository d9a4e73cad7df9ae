"""What goes together with a convolution, against ONNX Runtime's own provider; and what bad input gets."""

import threading

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import polyconv_onnxruntime
from conftest import DEVICE, growth_over_sizes, make_model, with_provider, without

FLOAT = TensorProto.FLOAT


def conv_model(random, after, shape=("N", 8, "H", "W"), out=12, more=None, inputs=None, **attributes):
    """x -> Conv -> `after` (nodes that read c and write y); c has `out` channels."""
    constants = {"w": random.standard_normal((out, shape[1], 3, 3), dtype=np.float32) / 8,
                 "b": random.standard_normal(out, dtype=np.float32), **(more or {})}
    attributes = {"pads": [1, 1, 1, 1], **attributes}
    return make_model([("Conv", "xwb", "c", attributes)] + after, {"x": (FLOAT, shape), **(inputs or {})}, constants)


def f(*values):
    return np.array(values, np.float32) if len(values) != 1 else np.float32(values[0])


AFTER = {
    "Relu": ([("Relu", "c", "y", {})], {}),
    "Clip": ([("Clip", ["c", "zero", "six"], "y", {})], {"zero": f(0), "six": f(0.5)}),
    "Clip from 0": ([("Clip", ["c", "zero"], "y", {})], {"zero": f(0)}),
    "LeakyRelu": ([("LeakyRelu", "c", "y", {"alpha": 0.3})], {}),
    "Elu": ([("Elu", "c", "y", {"alpha": 0.7})], {}),
    "Sigmoid": ([("Sigmoid", "c", "y", {})], {}),
    "Tanh": ([("Tanh", "c", "y", {})], {}),
    "HardSwish": ([("HardSwish", "c", "y", {})], {}),
    "Gelu": ([("Gelu", "c", "y", {})], {}),
    "Gelu of tanh": ([("Gelu", "c", "y", {"approximate": "tanh"})], {}),
    "Sigmoid+Mul": ([("Sigmoid", "c", "s", {}), ("Mul", "sc", "y", {})], {}),
    "HardSigmoid+Mul": ([("HardSigmoid", "c", "s", {"alpha": 1 / 6}), ("Mul", "cs", "y", {})], {}),
    "BatchNormalization": ([("BatchNormalization", "cgdmv", "y", {})],
                           {"g": np.linspace(.5, 2, 12, dtype=np.float32), "d": np.linspace(-1, 1, 12, dtype=np.float32),
                            "m": np.linspace(-.2, .3, 12, dtype=np.float32), "v": np.linspace(.4, 3, 12, dtype=np.float32)}),
    "Mul+Add+HardSwish written out": (
        [("Mul", ["c", "m"], "d", {}), ("Add", ["s", "d"], "e", {}), ("Add", ["e", "three"], "f", {}), ("Clip", ["f", "zero", "six"], "h", {}),
         ("Mul", "eh", "i", {}), ("Div", ["i", "six"], "y", {})],
        {"m": f(1.3), "s": np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 12, 1, 1), "three": f(3), "zero": f(0), "six": f(6)}),
    "Mul by channel": ([("Mul", ["c", "m"], "y", {})], {"m": np.linspace(-1, 1, 12, dtype=np.float32).reshape(12, 1, 1)}),
    "Relu+MaxPool": ([("Relu", "c", "r", {}), ("MaxPool", "r", "y", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})], {}),
    "AveragePool": ([("AveragePool", "c", "y", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})], {}),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_follows_is_fused(name, random, report):
    after, constants = AFTER[name]
    model = conv_model(random, after, more=constants)
    feeds = [{"x": random.standard_normal((n, 8, h, w), dtype=np.float32)} for n, h, w in ((1, 9, 11), (3, 16, 8), (1, 9, 11))]
    results, text = report.of(model, feeds, forced=True, optimised=False)
    for feed, result in zip(feeds, results):
        np.testing.assert_allclose(result[0], without(model).run(None, feed)[0], rtol=1e-5, atol=1e-5)
    assert "%d of %d nodes, 1 layers" % (len(after) + 1, len(after) + 1) in text
    assert "runs     3, plans 2" in text


def test_residual_of_the_same_shape(random, report):
    model = conv_model(random, [("Add", "rc", "a", {}), ("Relu", "a", "y", {})], shape=("N", 8, 6, 7), out=8,
                       inputs={"r": (FLOAT, ("N", 8, 6, 7))})
    feed = {name: random.standard_normal((2, 8, 6, 7), dtype=np.float32) for name in "xr"}
    results, text = report.of(model, [feed], forced=True)
    np.testing.assert_allclose(results[0][0], without(model).run(None, feed)[0], rtol=1e-5, atol=1e-5)
    assert "Conv+Add+Relu" in text


def test_what_only_seems_to_fit_stays(random, report):
    """An addition that broadcasts, bounds of a Clip that are inputs, a value that somebody else reads too."""
    for after, more, inputs in (
            ([("Add", "cr", "y", {})], {}, {"r": (FLOAT, ())}),
            ([("Add", "cr", "y", {})], {"r": random.standard_normal(5, dtype=np.float32)}, {}),
            ([("Clip", ["c", "low"], "y", {})], {}, {"low": (FLOAT, ())}),
            ([("Clip", ["c", "low"], "y", {})], {"low": f(-1)}, {}),
            ([("Relu", "c", "r", {}), ("Mul", "cr", "y", {})], {}, {})):
        model = conv_model(random, after, more=more, inputs=inputs)
        feed = {"x": random.standard_normal((1, 8, 5, 5), dtype=np.float32)}
        feed.update({name: np.array(0, np.float32) for name in inputs})
        results, text = report.of(model, [feed], optimised=False)
        np.testing.assert_allclose(results[0][0], without(model).run(None, feed)[0], rtol=1e-5, atol=1e-5)
        assert "nodes    Conv\n" in text


@pytest.mark.parametrize("attributes", [
    {"strides": [2, 1]}, {"dilations": [2, 2]}, {"pads": [0, 1, 2, 3]}, {"pads": [0] * 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"pads": [0] * 4, "auto_pad": "SAME_LOWER", "strides": [2, 2]}, {"pads": [0] * 4, "auto_pad": "VALID"}], ids=str)
def test_geometry(attributes, random):
    if "auto_pad" in attributes:
        attributes = {**attributes, "pads": None}
    model = conv_model(random, [("Identity", "c", "y", {})], **attributes)
    feed = {"x": random.standard_normal((2, 8, 13, 10), dtype=np.float32)}
    np.testing.assert_allclose(with_provider(model).run(None, feed)[0], without(model).run(None, feed)[0], rtol=1e-5, atol=1e-5)


def test_fused_conv(random, report):
    """Against the nodes that it stands for."""
    inputs = {"x": (FLOAT, (1, 4, 6, 6)), "z": (FLOAT, (1, 8, 6, 6))}
    constants = {"w": random.standard_normal((8, 4, 3, 3), dtype=np.float32), "b": random.standard_normal(8, dtype=np.float32)}
    fused = make_model([("FusedConv", "xwbz", "y", {"domain": "com.microsoft", "activation": "Relu", "pads": [1, 1, 1, 1]})], inputs, constants)
    plain = make_model([("Conv", "xwb", "c", {"pads": [1, 1, 1, 1]}), ("Add", "cz", "a", {}), ("Relu", "a", "y", {})], inputs, constants)
    feed = {name: random.standard_normal(shape, dtype=np.float32) for name, (_, shape) in inputs.items()}
    results, _ = report.of(fused, [feed], forced=True)
    np.testing.assert_allclose(results[0][0], without(plain).run(None, feed)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_with_normalisation(group, random, report):
    vectors = {name: random.random(6, dtype=np.float32) + .5 for name in "gdmv"}
    model = make_model([("ConvTranspose", "xwb", "c", {"strides": [2, 2], "group": group, "output_padding": [1, 1]}),
                        ("BatchNormalization", "cgdmv", "y", {})], {"x": (FLOAT, ("N", 4, "H", "W"))},
                       {"w": random.standard_normal((4, 6 // group, 3, 3), dtype=np.float32),
                        "b": random.standard_normal(6, dtype=np.float32), **vectors})
    feed = {"x": random.standard_normal((2, 4, 5, 6), dtype=np.float32)}
    results, _ = report.of(model, [feed], forced=True, optimised=False)
    np.testing.assert_allclose(results[0][0], without(model).run(None, feed)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("per_channel", [False, True])
def test_between_dequantise_and_quantise(per_channel, random, report):
    scale = np.linspace(.01, .02, 12, dtype=np.float32) if per_channel else f(.015)
    zero = np.zeros(12, np.int8) if per_channel else np.int8(0)
    axis = {"axis": 0} if per_channel else {}
    model = make_model([("DequantizeLinear", ["q", "xs", "xz"], "x", {}), ("DequantizeLinear", ["k", "ws", "wz"], "w", axis),
                        ("DequantizeLinear", ["i", "bs", "bz"], "b", axis), ("Conv", "xwb", "c", {"pads": [1, 1, 1, 1]}),
                        ("QuantizeLinear", ["c", "ys", "yz"], "y", {})], {"q": (TensorProto.UINT8, (1, 8, 9, 9))},
                       {"k": random.integers(-127, 128, (12, 8, 3, 3)).astype(np.int8), "xs": f(.02), "xz": np.uint8(120),
                        "ws": scale, "wz": zero, "i": random.integers(-500, 500, 12).astype(np.int32), "bs": f(.02) * scale,
                        "bz": np.zeros_like(zero, dtype=np.int32), "ys": f(.05), "yz": np.uint8(130)})
    feed = {"q": random.integers(0, 256, (1, 8, 9, 9)).astype(np.uint8)}
    results, text = report.of(model, [feed], forced=True)
    difference = results[0][0].astype(int) - without(model).run(None, feed)[0].astype(int)
    assert np.abs(difference).max() <= 1 and np.count_nonzero(difference) <= 5  # where a result lies between two numbers
    assert "5 of 5 nodes" in text


def test_zero_points_that_change(random, report):
    """Constant weights whose zero point is an input: each run has its own, of the tensor or one a channel."""
    weights = random.integers(-100, 100, (6, 8, 3, 3)).astype(np.int8)
    for shape, zeros in (((), [3, -5, 3]), ((6,), [range(6), range(-3, 3), [2] * 6])):
        model = make_model([("ConvInteger", ["x", "w", "xz", "wz"], "y", {"pads": [1, 1, 1, 1]})],
                           {"x": (TensorProto.UINT8, ("N", 8, 7, 7)), "xz": (TensorProto.UINT8, ()), "wz": (TensorProto.INT8, shape)},
                           {"w": weights})
        x = random.integers(0, 256, (1, 8, 7, 7)).astype(np.uint8)
        feeds = [{"x": x, "xz": np.array(7 + i, np.uint8), "wz": np.array(list(zero) if shape else zero, np.int8)} for i, zero in enumerate(zeros)]
        results, _ = report.of(model, feeds, forced=True)
        for feed, result in zip(feeds, results):
            padded = np.pad(feed["x"].astype(np.int64) - int(feed["xz"]), ((0, 0), (0, 0), (1, 1), (1, 1)))
            shifted = weights.astype(np.int64) - feed["wz"].astype(np.int64).reshape(-1, 1, 1, 1)
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
            assert (result[0] == np.einsum("nchwrs,kcrs->nkhw", windows, shifted)).all()


def test_empty_batch(random):
    session = with_provider(conv_model(random, [("Relu", "c", "y", {})]))
    assert session.run(None, {"x": np.ones((0, 8, 6, 6), np.float32)})[0].shape == (0, 12, 6, 6)


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU has other kernels")
def test_options_reach_the_plan(random, report):
    model = conv_model(random, [("Relu", "c", "y", {})])
    feed = {"x": random.standard_normal((1, 8, 9, 9), dtype=np.float32)}
    _, text = report.of(model, [feed], kernel="reference/*")
    assert "kernel   reference/" in text


@pytest.mark.parametrize("options, sentence", [
    ({"maths": "strict"}, 'there is no option "maths"'), ({"math": "exact"}, 'option math is "exact", expected one of strict'),
    ({"threads": "many"}, 'option threads is "many", expected a number from 0 to 1024'), ({"plans": 0}, "option plans is")], ids=str)
def test_wrong_options_fail_with_a_sentence(options, sentence, random):
    with pytest.raises(Exception, match=sentence):
        with_provider(conv_model(random, [("Relu", "c", "y", {})]), **options)


def test_wrong_shapes_fail_with_a_sentence_and_change_nothing(random):
    model = conv_model(random, [("Relu", "c", "y", {})], shape=("N", 8, "H", "W"))
    broken = make_model([("Conv", "xwb", "c", {}), ("Relu", "c", "y", {})], {"x": (FLOAT, ("N", "C", "H", "W"))},
                        {"w": np.ones((4, 8, 3, 3), np.float32), "b": np.ones(4, np.float32)})
    session = with_provider(broken)
    with pytest.raises(Exception, match="has 5 channels, weights 4x8x3x3 with group 1 expect 8"):
        session.run(None, {"x": np.ones((1, 5, 6, 6), np.float32)})
    assert session.run(None, {"x": np.ones((1, 8, 6, 6), np.float32)})[0].shape == (1, 4, 4, 4)
    with pytest.raises(Exception, match="'nobody/\\*', which matches no kernel that serves"):
        with_provider(model, kernel="nobody/*")


def test_many_sizes_keep_memory_flat(random):
    """200 sizes in a row: the second hundred may not add to the first's memory more than a few plans do."""
    model = conv_model(random, [("Relu", "c", "y", {})], out=32)
    session = with_provider(model, plans=4)
    assert growth_over_sizes(session, 8, 11) < 8 << 20


def test_runs_at_once(random):
    model = conv_model(random, [("Relu", "c", "y", {})])
    session, feeds = with_provider(model), [{"x": random.standard_normal((1, 8, n, n), dtype=np.float32)} for n in range(5, 13)]
    expected = [without(model).run(None, feed)[0] for feed in feeds]
    wrong = []

    def work():
        for _ in range(20):
            for feed, right in zip(feeds, expected):
                if not np.allclose(session.run(None, feed)[0], right, rtol=1e-5, atol=1e-5):
                    wrong.append(feed["x"].shape)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_runtime_is_the_one_asked_for():
    assert polyconv_onnxruntime.register()
    assert tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 24)


def test_plans_are_made_with_the_session(random, report):
    """Where the model tells all sizes but the batch: then a run of one image makes no further plan."""
    model = conv_model(random, [("Relu", "c", "y", {})], shape=("N", 8, 6, 7))
    _, text = report.of(model, [{"x": np.ones((1, 8, 6, 7), np.float32)}])
    assert "runs     1, plans 1" in text
    _, text = report.of(model, [{"x": np.ones((2, 8, 6, 7), np.float32)}])
    assert "runs     1, plans 2" in text
