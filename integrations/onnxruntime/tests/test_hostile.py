"""Models that lie, contradict themselves or go to the edges: they get what ONNX Runtime gives without the provider, or a sentence,
and never a crash. Each of them ended the process, failed a good model, or gave another result when it was written."""

import gc
import itertools
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from conftest import DEVICE, make_model, with_provider, without

FLOAT, UINT8, INT64 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64


def sentence(make, feed):
    """What a session says when it is made and run; it must say something."""
    with pytest.raises(Exception) as raised:
        make().run(None, feed)
    return str(raised.value)


def normals(random, *shape):
    return random.standard_normal(shape, dtype=np.float32)


def normalisation(random, channels):
    return {name: random.random(channels, dtype=np.float32) + .5 for name in "gdmv"}


@pytest.mark.parametrize("kind, attributes, filters, words", [
    ("Conv", {"group": 0}, (4, 3, 3, 3), "group: 0"), ("Conv", {"group": 3}, (4, 3, 3, 3), "not divisible by group"),
    ("Conv", {"group": -1}, (4, 9, 3, 3), "group: -1"), ("ConvTranspose", {"group": 5}, (9, 4, 3, 3), "not divisible by group"),
    ("Conv", {"kernel_shape": [5, 5]}, (4, 9, 3, 3), "kernel_shape is not compatible")], ids=str)
def test_contradictions_are_left_to_the_runtime(kind, attributes, filters, words, random):
    """With a product behind, which is folded into the weights when the session is made, before a run could refuse them."""
    model = make_model([(kind, "xw", "c", attributes), ("Mul", "cm", "y", {})], {"x": (FLOAT, ("N", "C", "H", "W"))},
                       {"w": normals(random, *filters), "m": np.float32(2)})
    assert words in sentence(lambda: with_provider(model, optimised=False), {"x": normals(random, 1, 9, 5, 5)})


@pytest.mark.parametrize("after", ["Mul", "Neg"])
def test_a_bias_of_another_size(after, random):
    """Which ONNX Runtime 1.24 reads beyond its end. With a product behind, it is folded when the session is made."""
    model = make_model([("Conv", "xwb", "c", {}), (after, "cm" if after == "Mul" else "c", "y", {})], {"x": (FLOAT, ("N", 9, "H", "W"))},
                       {"w": normals(random, 4, 9, 3, 3), "b": normals(random, 3), "m": np.float32(2)})
    assert "the bias has 3 elements, expected 4" in sentence(lambda: with_provider(model, optimised=False), {"x": normals(random, 1, 9, 5, 5)})


def test_a_normalisation_behind_a_group_that_does_not_fit(random):
    model = make_model([("Conv", "xw", "c", {"group": 0}), ("BatchNormalization", "cgdmv", "y", {})], {"x": (FLOAT, (1, 9, 5, 5))},
                       {"w": normals(random, 4, 3, 3, 3), **normalisation(random, 4)})
    assert "group: 0" in sentence(lambda: with_provider(model, optimised=False), {"x": normals(random, 1, 9, 5, 5)})


@pytest.mark.parametrize("told, fed, nodes, words", [
    ((1, 4, "D", "H", "W"), (1, 4, 25), [("Resize", ["a", "", "k"], "b", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
                                         ("Conv", "bu", "y", {})], "1x4x25, expected 5 axes"),
    ((1, 4, "H", "W"), (100,), [("HardSwish", "a", "b", {}), ("Conv", "bw", "y", {})], "100, expected 4 axes"),
    ((1, 4, "H", "W"), (1, 4, 25), [("Conv", "aw", "b", {}), ("MaxPool", "b", "y", {"kernel_shape": [2, 2]})], "both of rank 4"),
    ((1, 4, "H", "W"), (4, 25), [("GlobalAveragePool", "a", "b", {}), ("Conv", "bw", "y", {})], "4x25, expected 4 axes"),
    ((1, 4, "H", "W"), (1, 2, 5, 10), [("BatchNormalization", "agdmv", "b", {}), ("Conv", "bw", "y", {})], "has 2 channels")], ids=str)
def test_a_rank_that_the_model_tells_wrongly(told, fed, nodes, words, random):
    """A Reshape whose sizes come with each run: what the model says of its result is all that is known before."""
    model = onnx.load_from_string(make_model([("Reshape", "xs", "a", {})] + nodes, {"x": (FLOAT, None), "s": (INT64, (None,))},
                                             {"w": normals(random, 4, 4, 1, 1), "u": normals(random, 4, 4, 1, 1, 1),
                                              "k": np.array([1, 1, 2, 2, 2], np.float32), **normalisation(random, 4)}))
    model.graph.value_info.append(helper.make_tensor_value_info("a", FLOAT, told))
    session = with_provider(model.SerializeToString(), optimised=False)
    right = tuple(size if isinstance(size, int) else 5 for size in told)
    for shape, fails in ((fed, True), (right, False), (fed, True)):
        feed = {"x": normals(random, *shape).ravel(), "s": np.array(shape)}
        if fails:
            assert words in sentence(lambda: session, feed)
        else:
            np.testing.assert_allclose(session.run(None, feed)[0], without(model.SerializeToString()).run(None, feed)[0], rtol=1e-5, atol=1e-5)


def test_tensors_of_equal_names_and_other_sizes_are_not_added(random):
    """As many elements, so that nothing would be read outside of them, and another shape."""
    model = make_model([("Conv", "xw", "c", {}), ("Add", "cr", "y", {})], {name: (FLOAT, ("N", 4, "H", "W")) for name in "xr"}, {"w": normals(random, 4, 4, 1, 1)})
    feed = {"x": normals(random, 1, 4, 5, 6), "r": normals(random, 1, 4, 6, 5)}
    assert "is 1x4x6x5, but the model says that it has the convolution's shape, which is 1x4x5x6" in sentence(lambda: with_provider(model), feed)


@pytest.mark.parametrize("alpha", [np.inf, -np.inf, np.nan, -.3, 0])
@pytest.mark.parametrize("kind", ["LeakyRelu", "Elu"])
def test_any_slope(kind, alpha, random):
    model = make_model([("Conv", "xw", "c", {}), (kind, "c", "y", {"alpha": float(alpha)})], {"x": (FLOAT, (1, 4, 5, 6))}, {"w": normals(random, 4, 4, 1, 1)})
    feed = {"x": normals(random, 1, 4, 5, 6)}
    np.testing.assert_allclose(with_provider(model, optimised=False).run(None, feed)[0], without(model, optimised=False).run(None, feed)[0], rtol=1e-5, atol=1e-5)


PER_CHANNEL = np.array([.01, .02, .03, .04], np.float32)
QUANTISED = {
    "one scale": ({}, {}, True),
    "a bias of another scale": ({}, {"bs": np.float32(.002)}, False),
    "a bias with a zero point": ({}, {"bz": np.int32(500)}, False),
    "an input with a scale for each channel": ({"x": {"axis": 1}}, {"xs": PER_CHANNEL, "xz": np.full(4, 128, np.uint8)}, False),
    "a result with a scale for each channel": ({"y": {"axis": 1}}, {"ys": PER_CHANNEL * 2, "yz": np.full(4, 120, np.uint8)}, False),
    "weights with a scale for each input channel": ({"w": {"axis": 1}}, {"ws": PER_CHANNEL, "wz": np.zeros(4, np.int8)}, False),
    "weights with scales for blocks": ({"w": {"axis": 0, "block_size": 2}}, {"ws": np.full((2, 4, 3, 3), .02, np.float32), "wz": np.zeros((2, 4, 3, 3), np.int8)}, False),
}


@pytest.mark.parametrize("name", QUANTISED)
def test_scales_that_a_quantised_convolution_has_not(name, random, report):
    """What QLinearConv cannot say is computed in floats, between the nodes that are there."""
    attributes, changes, joins = QUANTISED[name]
    constants = {"xs": np.float32(.02), "xz": np.uint8(128), "ws": np.float32(.01), "wz": np.int8(0), "ys": np.float32(.05), "yz": np.uint8(120),
                 "k": random.integers(-100, 100, (4, 4, 3, 3)).astype(np.int8), "i": random.integers(-3000, 3000, 4).astype(np.int32),
                 "bs": np.float32(.02) * np.float32(.01), "bz": np.int32(0), **changes}
    nodes = [("DequantizeLinear", ["q", "xs", "xz"], "x", attributes.get("x", {})), ("DequantizeLinear", ["k", "ws", "wz"], "w", attributes.get("w", {})),
             ("DequantizeLinear", ["i", "bs", "bz"], "b", {}), ("Conv", "xwb", "c", {}), ("QuantizeLinear", ["c", "ys", "yz"], "y", attributes.get("y", {}))]
    if changes.keys() & {"xs", "ws"}:  # whose products are no bias's scale: without one
        nodes = nodes[:2] + [("Conv", "xw", "c", {})] + nodes[4:]
    model = make_model(nodes, {"q": (UINT8, ("N", 4, 7, 7))}, constants)
    feed = {"q": random.integers(0, 256, (2, 4, 7, 7)).astype(np.uint8)}
    results, text = report.of(model, [feed], optimised=False)
    difference = results[0][0].astype(int) - without(model, optimised=False).run(None, feed)[0].astype(int)
    assert np.abs(difference).max() <= 1 and np.count_nonzero(difference) <= difference.size / 50
    assert ("nodes    DequantizeLinear" in text) == joins, text


def test_a_report_that_cannot_be_written_is_told_at_once(random):
    model = make_model([("Conv", "xw", "y", {})], {"x": (FLOAT, (1, 4, 5, 6))}, {"w": normals(random, 4, 4, 1, 1)})
    with pytest.raises(Exception, match='option report is "/nowhere/report", which cannot be written'):
        with_provider(model, report="/nowhere/report")


@pytest.mark.parametrize("own", [False, True])
def test_sessions_come_and_go_on_many_threads(own, random):
    """Four threads make sessions, run other shapes in them and drop them, all at once; then memory is what it was."""
    nodes = [("Conv", "xw", "a", {"pads": [1] * 4}), ("Relu", "a", "b", {}), ("Conv", "bw", "c", {"pads": [1] * 4}), ("Add", "cb", "y", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 16, "H", "W"))}, {"w": normals(random, 16, 16, 3, 3) / 12})
    feeds = [{"x": normals(random, n, 16, size, size + 3)} for n, size in ((1, 5), (2, 9), (1, 30))]
    expected = [without(model).run(None, feed)[0] for feed in feeds]
    wrong = []

    def work():
        try:
            for _ in range(6):
                session = with_provider(model, pool="own" if own else "session", plans=2)
                for feed, right in zip(feeds, expected):
                    np.testing.assert_allclose(session.run(None, feed)[0], right, rtol=1e-5, atol=1e-5)
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(error)

    def round_of_threads():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    round_of_threads()
    before = round_of_threads()
    assert round_of_threads() - before < 16 << 20
    assert not wrong


def test_a_session_of_one_thread(random):
    """A session of one thread has no pool to share work with."""
    model = make_model([("Conv", "xw", "c", {"pads": [1] * 4}), ("Relu", "c", "y", {})], {"x": (FLOAT, ("N", 16, "H", "W"))}, {"w": normals(random, 16, 16, 3, 3)})
    import polyconv_onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, polyconv_onnxruntime.options(options), enable_fallback=0)
    feed = {"x": normals(random, 2, 16, 40, 40)}
    np.testing.assert_allclose(session.run(None, feed)[0], without(model).run(None, feed)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind, attributes", [("MaxPool", {}), ("MaxPool", {"ceil_mode": 1}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}),
                                              ("AveragePool", {"count_include_pad": 1, "ceil_mode": 1})], ids=str)
def test_a_window_of_pooling_larger_than_what_is_there(kind, attributes, random):
    """ONNX Runtime takes one that overhangs by less than a stride, as in the last layers of a network over a small image."""
    for height in (1, 2, 3):
        behind = (0,) if "count_include_pad" in attributes else (0, 1)  # ONNX Runtime 1.24 does not count it
        for window, stride, above, below in itertools.product((2, 3, 4, 5), (1, 2, 3, 4), (0, 1), behind):
            model = make_model([("Conv", "xw", "c", {}), (kind, "c", "y", {"kernel_shape": [window, 2], "strides": [stride, 1], "pads": [above, 0, below, 0], **attributes})],
                               {"x": (FLOAT, ("N", 2, "H", "W"))}, {"w": normals(random, 2, 2, 1, 1)})
            feed = {"x": normals(random, 1, 2, height, 4)}
            try:
                expected = without(model).run(None, feed)[0]
            except Exception:  # pylint: disable=broad-except
                continue
            if expected.size:  # an empty result gets a sentence
                np.testing.assert_allclose(with_provider(model).run(None, feed)[0], expected, rtol=1e-5, atol=1e-5)


def test_layers_that_no_admitted_kernel_takes_stay_with_the_runtime(random, report):
    """They were taken, and failed in every run."""
    model = make_model([("Conv", "xw", "c", {}), ("Relu", "c", "y", {})], {"x": (FLOAT, ("N", 4, "H", "W"))}, {"w": normals(random, 4, 4, 3, 3)})
    feed = {"x": normals(random, 1, 4, 9, 8)}
    for options, reason in (({"determinism": "identical"}, "offered for the s8/u8 rows only"), ({"kernel": "*/pool"}, "only pools")):
        results, text = report.of(model, [feed], **options)
        np.testing.assert_allclose(results[0][0], without(model).run(None, feed)[0], rtol=1e-5, atol=1e-5)
        assert ": 0 of " in text and "left " in text and reason in text, text


def test_sizes_that_change_on_several_threads(random):
    """One session, a size of its own in each run, on six threads at once: each result has the bits that it has alone."""
    nodes = [("Conv", "xw", "a", {"pads": [1] * 4}), ("Relu", "a", "b", {}), ("GlobalAveragePool", "b", "g", {}), ("Conv", "gv", "h", {}),
             ("Sigmoid", "h", "s", {}), ("Mul", "bs", "m", {}), ("Conv", "mw", "c", {"pads": [1] * 4}), ("Add", "cb", "y", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 16, "H", "W"))}, {"w": normals(random, 16, 16, 3, 3) / 12, "v": normals(random, 16, 16, 1, 1)})
    feeds = [{"x": normals(random, 1 + i % 2, 16, 8 + i, 40 - i)} for i in range(30)]
    session = with_provider(model, plans=5, determinism="invariant")  # where no result depends on which size came first
    expected = [session.run(None, feed)[0].tobytes() for feed in feeds]
    session, wrong = with_provider(model, plans=5, determinism="invariant"), []

    def work(first):
        try:
            wrong.extend(i for i in range(30) if session.run(None, feeds[(first + i) % 30])[0].tobytes() != expected[(first + i) % 30])
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(5 * k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_little_larger_image_has_room(random):
    """Memory for the time of a run is not given back and taken anew, every page of which the system would clear."""
    if DEVICE != "cpu":
        pytest.skip("a GPU's memory comes from the session's allocator")
    model = make_model([("Conv", "xw", "a", {}), ("Relu", "a", "b", {}), ("Conv", "bv", "c", {}), ("Relu", "c", "d", {}), ("Conv", "du", "y", {})],
                       {"x": (FLOAT, (1, 1, "H", "W"))}, {"w": normals(random, 64, 1, 3, 3), "v": normals(random, 64, 64, 3, 3), "u": normals(random, 1, 64, 3, 3)})

    def largest_mapping():
        with open("/proc/self/maps") as file:
            bounds = [line.split()[0].split("-") for line in file if len(line.split()) == 5]  # of no file
        return max(int(end, 16) - int(begin, 16) for begin, end in bounds)

    session = with_provider(model)
    session.run(None, {"x": normals(random, 1, 1, 1060, 1000)})
    before = largest_mapping()
    session.run(None, {"x": normals(random, 1, 1, 1160, 1000)})
    assert before > 200 << 20 and abs(largest_mapping() - before) < 4 << 20
