"""Layers that hang together become one fused node: what joins, what may not, and that results stay what they were."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

from conftest import DEVICE, growth_over_sizes, make_model, with_provider, without

FLOAT = TensorProto.FLOAT


def weights(random, *shape):
    return (random.standard_normal(shape, dtype=np.float32) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def compare(model, feeds, report, layers, regions, **options):
    results, text = report.of(model, feeds, optimised=False, **options)
    session = without(model)
    for feed, result in zip(feeds, results):
        for ours, theirs in zip(result, session.run(None, feed)):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    assert "%d layers in %d regions" % (layers, regions) in text, text
    return text


def bottleneck(random, stride=1):
    """A residual block with a projection, and one without, as ResNet has them, pooled to begin with."""
    nodes = [("Conv", ["x", "w0"], "a", {"pads": [1] * 4}), ("Relu", "a", "b", {}),
             ("MaxPool", "b", "c", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
             ("Conv", ["c", "w1"], "d", {}), ("Relu", "d", "e", {}), ("Conv", ["e", "w2"], "f", {"pads": [1] * 4, "strides": [stride] * 2}),
             ("Relu", "f", "g", {}), ("Conv", ["g", "w3"], "h", {}), ("Conv", ["c", "w4"], "i", {"strides": [stride] * 2}),
             ("Add", "hi", "j", {}), ("Relu", "j", "k", {}),
             ("Conv", ["k", "w5"], "l", {}), ("Clip", ["l", "zero", "six"], "m", {}), ("Conv", ["m", "w6"], "n", {"pads": [1] * 4, "group": 24}),
             ("Conv", ["n", "w7"], "o", {}), ("Add", "ok", "y", {})]
    shapes = {"w0": (16, 3, 3, 3), "w1": (8, 16, 1, 1), "w2": (8, 8, 3, 3), "w3": (40, 8, 1, 1), "w4": (40, 16, 1, 1),
              "w5": (24, 40, 1, 1), "w6": (24, 1, 3, 3), "w7": (40, 24, 1, 1)}
    constants = {name: weights(random, *shape) for name, shape in shapes.items()}
    return nodes, {**constants, "zero": np.float32(0), "six": np.float32(6)}


@pytest.mark.parametrize("stride", [1, 2])
def test_blocks_with_residuals_are_one_region(stride, random, report):
    nodes, constants = bottleneck(random, stride)
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants)
    feeds = [{"x": random.standard_normal((n, 3, h, w), dtype=np.float32)} for n, h, w in ((1, 32, 32), (2, 19, 45), (1, 5, 4), (1, 224, 224))]
    text = compare(model, feeds, report, 8, 1, forced=True)
    assert "16 of 16 nodes" in text and "runs     4, plans 4" in text


def test_tensors_that_leave_a_region_are_read_inside_too(random, report):
    """Results of layers that other operators, and the model itself, want as well."""
    nodes = [("Conv", ["x", "w0"], "a", {"pads": [1] * 4}), ("Conv", ["a", "w1"], "b", {"pads": [1] * 4}), ("Add", "ab", "c", {}),
             ("Conv", ["c", "w1"], "d", {"pads": [1] * 4}), ("Exp", "c", "e", {}), ("Neg", "d", "z", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 4, 20, "W"))}, {"w0": weights(random, 48, 4, 3, 3), "w1": weights(random, 48, 48, 3, 3)},
                       outputs=("a", "e", "z"))
    compare(model, [{"x": random.standard_normal((2, 4, 20, 30), dtype=np.float32)}], report, 3, 1)


def test_no_way_leads_out_of_a_region_and_back(random, report):
    """A gate that the provider does not take whole: what is behind it is a region of its own."""
    nodes = [("Conv", ["x", "w0"], "a", {}), ("Conv", ["a", "w1"], "b", {"pads": [1] * 4}), ("GlobalMaxPool", "b", "c", {}),
             ("Conv", ["c", "w2"], "d", {}), ("Relu", "d", "e", {}), ("Conv", ["e", "w3"], "f", {}), ("Sigmoid", "f", "g", {}),
             ("Mul", "bg", "h", {}), ("Conv", ["h", "w4"], "i", {}), ("Add", "ai", "y", {})]
    constants = {"w0": weights(random, 16, 3, 1, 1), "w1": weights(random, 32, 16, 3, 3), "w2": weights(random, 8, 32, 1, 1),
                 "w3": weights(random, 32, 8, 1, 1), "w4": weights(random, 16, 32, 1, 1)}
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants)
    compare(model, [{"x": random.standard_normal((1, 3, 14, 14), dtype=np.float32)}], report, 5, 2)


def test_a_graph_inside_a_node_reads_too(random, report):
    """If hands a region's result to its branches, and what it gives is read by a layer that reads the region as well."""
    branches = [helper.make_graph([helper.make_node(kind, ["b"], [kind])], kind, [], [helper.make_tensor_value_info(kind, FLOAT, None)])
                for kind in ("Exp", "Neg")]
    nodes = [("Conv", ["x", "w"], "a", {"pads": [1] * 4}), ("Conv", ["a", "w"], "b", {"pads": [1] * 4}),
             ("If", ["choice"], "c", {"then_branch": branches[0], "else_branch": branches[1]}),
             ("Conv", ["b", "w"], "d", {"pads": [1] * 4}), ("Add", "dc", "e", {}), ("Conv", ["e", "w"], "y", {})]
    model = make_model(nodes, {"x": (FLOAT, (1, 8, 9, 9)), "choice": (TensorProto.BOOL, ())}, {"w": weights(random, 8, 8, 3, 3)})
    feeds = [{"x": random.standard_normal((1, 8, 9, 9), dtype=np.float32), "choice": np.array(choice)} for choice in (True, False)]
    results, _ = report.of(model, feeds, optimised=False)
    for feed, result in zip(feeds, results):
        np.testing.assert_allclose(result[0], without(model).run(None, feed)[0], rtol=2e-5, atol=2e-5)


def test_layers_whose_weights_change_stay_alone(random, report):
    nodes = [("Conv", ["x", "w0"], "a", {}), ("Conv", ["a", "k"], "b", {"pads": [1] * 4}), ("Conv", ["b", "w1"], "c", {}), ("Conv", ["c", "w1"], "y", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, 8, 8)), "k": (FLOAT, (16, 16, 3, 3))},
                       {"w0": weights(random, 16, 3, 1, 1), "w1": weights(random, 16, 16, 1, 1)})
    feeds = [{"x": random.standard_normal((1, 3, 8, 8), dtype=np.float32), "k": weights(random, 16, 16, 3, 3)} for _ in range(3)]
    compare(model, feeds, report, 4, 3)


@pytest.mark.parametrize("axes", [1, 3])
def test_other_dimensions(axes, random, report):
    nodes = [("Conv", ["x", "w0"], "a", {"pads": [1] * (2 * axes)}), ("LeakyRelu", "a", "b", {}), ("Conv", ["b", "w1"], "c", {"pads": [1] * (2 * axes)}),
             ("Add", "cb", "d", {}), ("ConvTranspose", ["d", "w2"], "y", {"strides": [2] * axes})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 5) + tuple("DHW"[:axes]))},
                       {"w0": weights(random, 20, 5, *[3] * axes), "w1": weights(random, 20, 20, *[3] * axes), "w2": weights(random, 20, 7, *[2] * axes)})
    compare(model, [{"x": random.standard_normal((2, 5) + (9,) * axes, dtype=np.float32)}], report, 3, 1)


def test_quantised_layers_join(random, report):
    constants = {"sx": np.float32(.02), "zx": np.uint8(120), "sw": np.float32(.01), "zw": np.int8(0), "zv": np.int8(0), "sy": np.float32(.05), "zy": np.uint8(130),
                 "w0": random.integers(-100, 101, (16, 8, 3, 3)).astype(np.int8), "w1": random.integers(-100, 101, (24, 16, 1, 1)).astype(np.int8)}
    nodes = [("QLinearConv", ["x", "sx", "zx", "w0", "sw", "zw", "sy", "zy"], "a", {"pads": [1] * 4}),
             ("QLinearConv", ["a", "sy", "zy", "w1", "sw", "zv", "sy", "zy"], "y", {})]  # ONNX Runtime 1.32 fails where both share a zero point
    model = make_model(nodes, {"x": (TensorProto.UINT8, ("N", 8, 10, 10))}, constants)
    feed = {"x": random.integers(0, 256, (2, 8, 10, 10)).astype(np.uint8)}
    results, text = report.of(model, [feed], forced=True, optimised=False)
    difference = results[0][0].astype(int) - without(model).run(None, feed)[0].astype(int)
    assert np.abs(difference).max() <= 1 and np.count_nonzero(difference) < difference.size / 100
    assert "2 layers in 1 regions" in text


@pytest.mark.skipif(DEVICE != "cpu", reason="what is faster is another matter on a GPU")
def test_neighbours_become_a_chain_where_that_is_faster(random, report):
    """MobileNet's widest block: what lies between does not fit into the caches."""
    nodes = [("Conv", ["x", "w0"], "a", {}), ("Relu", "a", "b", {}), ("Conv", ["b", "w1"], "c", {"group": 96, "pads": [1] * 4, "strides": [2, 2]}),
             ("Relu", "c", "d", {}), ("Conv", ["d", "w2"], "y", {})]
    model = make_model(nodes, {"x": (FLOAT, (1, 16, 112, 112))},
                       {"w0": weights(random, 96, 16, 1, 1), "w1": weights(random, 96, 1, 3, 3), "w2": weights(random, 24, 96, 1, 1)})
    text = compare(model, [{"x": random.standard_normal((1, 16, 112, 112), dtype=np.float32)}], report, 3, 1)
    assert re.search(r"kernel   threads/chain.*, a chain from layer a to y for ", text), text


def test_an_image_has_the_same_bits_in_any_batch_where_that_is_asked_for(random):
    nodes, constants = bottleneck(random)
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants)
    x = random.standard_normal((7, 3, 30, 41), dtype=np.float32)
    session = with_provider(model, determinism="invariant")
    alone = np.concatenate([session.run(None, {"x": x[i:i + 1]})[0] for i in range(7)])
    assert (session.run(None, {"x": x})[0] == alone).all()
    assert (with_provider(model, determinism="invariant", threads=1).run(None, {"x": x})[0] == alone).all()


def test_a_wrong_shape_inside_a_region_fails_with_a_sentence(random):
    nodes = [("Conv", ["x", "w"], "a", {"pads": [1] * 4}), ("Conv", ["a", "v"], "y", {})]
    session = with_provider(make_model(nodes, {"x": (FLOAT, ("N", "C", "H", "W"))}, {"w": weights(random, 4, 4, 3, 3), "v": weights(random, 4, 4, 3, 3)}))
    with pytest.raises(Exception, match="has 3 channels, weights 4x4x3x3 with group 1 expect 4"):
        session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})
    assert session.run(None, {"x": np.ones((1, 4, 8, 8), np.float32)})[0].shape == (1, 4, 6, 6)


def test_many_sizes_keep_a_networks_memory_flat(random):
    """200 sizes in a row through a region: the second hundred may add no more than a few schedules do."""
    nodes, constants = bottleneck(random)
    session = with_provider(make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants), plans=4)
    assert growth_over_sizes(session, 3, 41) < 8 << 20
