"""Convolutions inside If, Loop and Scan, and in functions of the model: claimed as those outside, and the results stay what they were."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import make_model, with_provider, without

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def weights(random, *shape):
    return (random.standard_normal(shape, dtype=np.float32) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def body(name, nodes, inputs, outputs):
    """`inputs` and `outputs` name: (type, shape)."""
    def told(values):
        return [helper.make_tensor_value_info(value, kind, shape) for value, (kind, shape) in values.items()]
    return helper.make_graph([helper.make_node(kind, list(ins), list(outs), **attributes) for kind, ins, outs, attributes in nodes],
                             name, told(inputs), told(outputs))


def block(x, y, prefix, w="w"):
    """Two layers with a residual between them, which are one region."""
    a, b, c = (prefix + letter for letter in "abc")
    return [("Conv", [x, w], [a], {"pads": [1] * 4, "name": a}), ("Relu", [a], [b], {}), ("Conv", [b, w], [c], {"pads": [1] * 4, "name": c}),
            ("Add", [c, x], [y], {})]


def same(model, feeds, report, claimed, layers, regions):
    results, text = report.of(model, feeds, optimised=False)
    session = without(model)
    for feed, result in zip(feeds, results):
        for ours, theirs in zip(result, session.run(None, feed)):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    told = re.match(r"polyconv \S+: (\d+) of \d+ nodes, (\d+) layers in (\d+) regions", text)
    assert told and [int(number) for number in told.groups()] == [claimed, layers, regions], text
    return text


def image(random, *shape):
    return random.standard_normal(shape, dtype=np.float32)


def test_a_loop_carries_what_its_layers_compute(random, report):
    """The weights are a constant of the graph around it, and what is carried on keeps its shape in every turn."""
    loop = body("loop", [("Identity", ["go"], ["on"], {})] + block("h", "next", "l"),
                {"i": (INT64, ()), "go": (BOOL, ()), "h": (FLOAT, ("N", 8, "H", "W"))}, {"on": (BOOL, ()), "next": (FLOAT, ("N", 8, "H", "W"))})
    nodes = [("Conv", ["x", "v"], ["h0"], {"pads": [1] * 4}), ("Loop", ["turns", "go", "h0"], ["h1"], {"body": loop}), ("Conv", ["h1", "v2"], "y", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W")), "turns": (INT64, ())},
                       {"go": np.array(True), "w": weights(random, 8, 8, 3, 3), "v": weights(random, 8, 3, 3, 3), "v2": weights(random, 5, 8, 1, 1)})
    feeds = [{"x": image(random, n, 3, h, 11), "turns": np.array(turns, np.int64)} for n, h, turns in ((1, 9, 3), (2, 17, 1), (1, 9, 0))]
    text = same(model, feeds, report, 6, 4, 3)
    assert "runs     4, plans 2" in text  # of the layers inside: three turns and one, at two sizes


def test_a_loop_whose_sizes_change_from_turn_to_turn(random, report):
    """No padding: each turn has two rows and columns less."""
    loop = body("loop", [("Identity", ["go"], ["on"], {}), ("Conv", ["h", "w"], ["next"], {})],
                {"i": (INT64, ()), "go": (BOOL, ()), "h": (FLOAT, None)}, {"on": (BOOL, ()), "next": (FLOAT, None)})
    model = make_model([("Loop", ["turns", "go", "x"], "y", {"body": loop})], {"x": (FLOAT, (1, 4, 21, 16)), "turns": (INT64, ())},
                       {"go": np.array(True), "w": weights(random, 4, 4, 3, 3)})
    same(model, [{"x": image(random, 1, 4, 21, 16), "turns": np.array(6, np.int64)}], report, 1, 1, 1)


def test_a_scan_filters_slice_by_slice(random, report):
    """A state, a tensor that is cut along its last axis, and weights from the graph around it."""
    scan = body("scan", [("Add", ["state", "slice"], ["sum"], {})] + block("sum", "filtered", "s") + [("Identity", ["filtered"], ["after"], {})],
                {"state": (FLOAT, (1, 8, 9, 7)), "slice": (FLOAT, (1, 8, 9, 7))}, {"after": (FLOAT, (1, 8, 9, 7)), "filtered": (FLOAT, (1, 8, 9, 7))})
    model = make_model([("Scan", ["x0", "x"], ["last", "all"], {"body": scan, "num_scan_inputs": 1, "scan_input_axes": [4]})],
                       {"x0": (FLOAT, (1, 8, 9, 7)), "x": (FLOAT, (1, 8, 9, 7, 5))}, {"w": weights(random, 8, 8, 3, 3)}, outputs=("last", "all"))
    text = same(model, [{"x0": image(random, 1, 8, 9, 7), "x": image(random, 1, 8, 9, 7, 5)}], report, 5, 2, 1)
    assert "runs     5, plans 1" in text


@pytest.mark.parametrize("names", ["different", "equal"])
def test_both_branches_of_an_if(names, random, report):
    """Branches may call their values alike, although their shapes differ; they read a tensor that a layer outside writes."""
    then = body("then", block("h", "r", "t" if names == "different" else "e"), {}, {"r": (FLOAT, None)})
    other = [("MaxPool", ["h"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]})] + block("p", "r", "e")
    nodes = [("Conv", ["x", "v"], "h", {"pads": [1] * 4}), ("If", ["choice"], "y", {"then_branch": then, "else_branch": body("else", other, {}, {"r": (FLOAT, None)})})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, 12, 14)), "choice": (BOOL, ())}, {"w": weights(random, 8, 8, 3, 3), "v": weights(random, 8, 3, 3, 3)})
    feeds = [{"x": image(random, 2, 3, 12, 14), "choice": np.array(choice)} for choice in (True, False, True)]
    same(model, feeds, report, 9, 5, 3)


def test_graphs_in_graphs(random, report):
    """An If in a Loop, of which one branch convolves what the loop carries, with weights that the loop computes."""
    then = body("then", [("Conv", ["h", "u"], ["r"], {"pads": [1] * 4})], {}, {"r": (FLOAT, None)})
    other = body("else", block("h", "r", "o"), {}, {"r": (FLOAT, None)})
    loop = body("loop", [("Identity", ["go"], ["on"], {}), ("Cast", ["i"], ["even"], {"to": BOOL}), ("Neg", ["w"], ["u"], {}),
                         ("If", ["even"], ["next"], {"then_branch": then, "else_branch": other})],
                {"i": (INT64, ()), "go": (BOOL, ()), "h": (FLOAT, (1, 8, 6, 6))}, {"on": (BOOL, ()), "next": (FLOAT, (1, 8, 6, 6))})
    model = make_model([("Loop", ["turns", "go", "x"], "y", {"body": loop})], {"x": (FLOAT, (1, 8, 6, 6)), "turns": (INT64, ())},
                       {"go": np.array(True), "w": weights(random, 8, 8, 3, 3)})
    same(model, [{"x": image(random, 1, 8, 6, 6), "turns": np.array(4, np.int64)}], report, 5, 3, 2)


def test_a_branch_that_only_hands_on_what_a_region_writes(random, report):
    """The branch reads the first layer's result before its Relu, so that these stay two tensors."""
    then = body("then", [("Identity", ["a"], ["r"], {})], {}, {"r": (FLOAT, None)})
    other = body("else", [("Identity", ["b"], ["r"], {})], {}, {"r": (FLOAT, None)})
    nodes = [("Conv", ["x", "v"], "a", {"pads": [1] * 4}), ("Relu", "a", "b", {}), ("If", ["choice"], "y", {"then_branch": then, "else_branch": other}),
             ("Conv", ["b", "w"], "z", {})]
    model = make_model(nodes, {"x": (FLOAT, (1, 3, 9, 9)), "choice": (BOOL, ())}, {"w": weights(random, 8, 8, 3, 3), "v": weights(random, 8, 3, 3, 3)},
                       outputs=("y", "z"))
    feeds = [{"x": image(random, 1, 3, 9, 9), "choice": np.array(choice)} for choice in (True, False)]
    results, _ = report.of(model, feeds, optimised=False)
    for feed, result in zip(feeds, results):
        for ours, theirs in zip(result, without(model).run(None, feed)):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_functions_of_the_model(random):
    """ONNX Runtime puts what a function stands for in the place of a call, and the provider sees that."""
    block = helper.make_function("my", "Block", ["x", "w"], ["y"], [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), helper.make_node("Relu", ["a"], ["y"])],
                                 [helper.make_opsetid("", 17)])
    constants = [numpy_helper.from_array(weights(random, 4, 4, 3, 3), name) for name in ("v", "w")]
    calls = [helper.make_node("Block", ["x", "v"], ["p"], domain="my"), helper.make_node("Block", ["p", "w"], ["y"], domain="my")]
    told = [helper.make_tensor_value_info(name, FLOAT, ["N", 4, 8, 8]) for name in "xy"]
    model = helper.make_model(helper.make_graph(calls, "g", told[:1], told[1:], constants), functions=[block], ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]).SerializeToString()
    x = image(random, 2, 4, 8, 8)
    np.testing.assert_allclose(with_provider(model, forced=True).run(None, {"x": x})[0], without(model).run(None, {"x": x})[0], rtol=2e-5, atol=2e-5)
