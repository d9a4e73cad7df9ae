"""Operators between layers that the provider takes: ONNX's own node tests of them behind a convolution that changes nothing, networks
that have them against ONNX Runtime's own provider, and what only seems to be one."""

import re
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import make_model, with_provider, without
from test_regions import compare, weights

FLOAT = TensorProto.FLOAT
OPERATORS = {"Add", "Sub", "Mul", "Div", "Relu", "Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "GlobalAveragePool", "ReduceMean", "Concat",
             "Resize"}


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        found = [case for case in collect_testcases(None) if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in OPERATORS]
    return [case for case in found if any(is_image(value) for value in case.data_sets[0][0])]


def is_image(array):
    return isinstance(array, np.ndarray) and array.dtype == np.float32 and 3 <= array.ndim <= 5 and array.size > 0


def behind_convolutions(case):
    """The case's model with a 1x1 convolution by 1 before each image; every other input becomes a constant. Returns its feed, too."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    graph, feed, before = model.graph, {}, []
    values = dict(zip([value.name for value in graph.input], case.data_sets[0][0]))
    for name, array in values.items():
        if not is_image(array):
            graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
            continue
        feed["image of " + name] = array
        channels = array.shape[1]
        graph.initializer.append(numpy_helper.from_array(np.ones((channels, 1) + (1,) * (array.ndim - 2), np.float32), "one for " + name))
        before.append(helper.make_node("Conv", ["image of " + name, "one for " + name], [name], group=channels))
    operators = before + list(graph.node)
    del graph.node[:], graph.input[:]
    graph.node.extend(operators)
    graph.input.extend(helper.make_tensor_value_info(name, FLOAT, array.shape) for name, array in feed.items())
    return model.SerializeToString(), feed


def check(case, session, feed):
    for result, expected in zip(session.run(None, feed), case.data_sets[0][1]):
        np.testing.assert_allclose(result, expected, rtol=max(case.rtol, 1e-5), atol=max(case.atol, 1e-6))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_node_cases(case):
    model, feed = behind_convolutions(case)
    try:
        check(case, without(model), feed)
    except Exception as failure:  # pylint: disable=broad-except
        pytest.skip("ONNX Runtime %s alone: %s" % (onnxruntime.__version__, " ".join(str(failure).split())[:120]))
    check(case, with_provider(model), feed)


def test_node_cases_are_taken():
    """The same, with nothing that ONNX Runtime's own provider could compute."""
    taken, refused = set(), set()
    for case in cases():
        model, feed = behind_convolutions(case)
        try:
            session = with_provider(model, forced=True)
        except Exception:  # pylint: disable=broad-except
            refused.add(case.name)
            continue
        check(case, session, feed)
        taken.add(case.name)
    assert {"test_add", "test_sub", "test_mul", "test_div", "test_relu", "test_hardsigmoid", "test_hardswish", "test_leakyrelu", "test_clip",
            "test_concat_3d_axis_1", "test_concat_3d_axis_negative_2", "test_globalaveragepool", "test_resize_upsample_scales_nearest"} <= taken
    assert {"test_concat_3d_axis_2", "test_resize_upsample_scales_linear", "test_resize_downsample_scales_nearest"} <= refused


@pytest.mark.parametrize("channels, size", [(3, 7), (24, 20), (64, 40)])
@pytest.mark.parametrize("shape", ["NC11", "N1HW", "1C11", "NCH1", "NCHW", "1111", "11HW"])
@pytest.mark.parametrize("kind", ["Add", "Mul", "Sub", "Div"])
def test_tensors_are_broadcast(kind, shape, channels, size, random, report):
    """Between two convolutions, either way round, in whichever layout these want."""
    sizes = {"N": 2, "C": channels, "H": size, "W": size + 1, "1": 1}
    nodes = [("Conv", ["x", "w"], "a", {"pads": [1] * 4}), (kind, "ag", "b", {}), ("Conv", ["b", "w"], "c", {"pads": [1] * 4}),
             ("Mul" if kind == "Div" else kind, "gc", "d", {}), ("Conv", ["d", "w"], "y", {"pads": [1] * 4})]
    model = make_model(nodes, {"x": (FLOAT, ("N", channels, "H", "W")), "g": (FLOAT, ["?" + letter for letter in shape])},
                       {"w": weights(random, channels, channels, 3, 3)})
    feed = {"x": random.standard_normal((2, channels, size, size + 1), dtype=np.float32),
            "g": 1 + random.random([sizes[letter] for letter in shape], dtype=np.float32)}
    session, plain = with_provider(model, forced=kind in ("Add", "Mul")), without(model)
    expected = plain.run(None, feed)[0]
    np.testing.assert_allclose(session.run(None, feed)[0], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("constant", [(1, 5, 1, 1), (5, 1, 1), (6,), (7, 1), (1,), (2, 1, 1, 1)], ids=str)
def test_constants_are_broadcast(constant, random, report):
    """A Relu before them, so that they are not folded, and padding behind."""
    nodes = [("Conv", ["x", "w"], "a", {"pads": [1] * 4}), ("Relu", "a", "b", {}), ("Mul", "kb", "c", {}), ("Add", "ck", "d", {}),
             ("Sub", "dk", "e", {}), ("Div", "ek", "f", {}), ("LeakyRelu", "f", "g", {"alpha": .3}), ("Conv", ["g", "w"], "y", {"pads": [1] * 4})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 5, "H", "W"))}, {"w": weights(random, 5, 5, 3, 3), "k": .5 + random.random(constant, dtype=np.float32)})
    text = compare(model, [{"x": random.standard_normal((2, 5, 7, 6), dtype=np.float32)}], report, 2, 1, forced=True)
    assert "nodes    Mul+Add+Sub+Div+LeakyRelu\n" in text


def excitation(random, hard, addition):
    """MobileNetV3's block: a gate for each channel, and perhaps the ungated tensor added again."""
    gate = ("HardSigmoid", "f", "g", {"alpha": .2, "beta": .5}) if hard else ("Sigmoid", "f", "g", {})
    nodes = [("Conv", ["x", "w0"], "a", {}), ("Relu", "a", "r", {}), ("Conv", ["r", "w1"], "b", {"pads": [1] * 4, "group": 32}), ("Relu", "b", "s", {}),
             ("GlobalAveragePool", "s", "c", {}), ("Conv", ["c", "w2"], "d", {}), ("Relu", "d", "e", {}), ("Conv", ["e", "w3"], "f", {}), gate,
             ("Mul", "sg", "h", {}), ("Add", "sh", "i", {}), ("Conv", ["i" if addition else "h", "w4"], "j", {}), ("Add", "ja", "y", {})]
    if not addition:
        del nodes[10]
    constants = {"w0": weights(random, 32, 3, 1, 1), "w1": weights(random, 32, 1, 3, 3), "w2": weights(random, 8, 32, 1, 1),
                 "w3": weights(random, 32, 8, 1, 1), "w4": weights(random, 32, 32, 1, 1)}
    return make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants)


@pytest.mark.parametrize("addition", [False, True])
@pytest.mark.parametrize("hard", [False, True])
def test_squeeze_and_excitation_is_one_region(hard, addition, random, report):
    feeds = [{"x": random.standard_normal((n, 3, h, w), dtype=np.float32)} for n, h, w in ((1, 14, 14), (3, 33, 70), (2, 1, 1), (1, 120, 90))]
    text = compare(excitation(random, hard, addition), feeds, report, 5, 1, forced=True)
    assert "nodes    Mul+Add\n" in text or not addition


def test_an_image_has_the_same_bits_in_any_batch(random):
    model = excitation(random, True, True)
    x = random.standard_normal((5, 3, 31, 40), dtype=np.float32)
    session = with_provider(model, determinism="invariant")
    alone = np.concatenate([session.run(None, {"x": x[i:i + 1]})[0] for i in range(5)])
    assert (session.run(None, {"x": x})[0] == alone).all()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_pyramid_is_one_region(axes, random, report):
    """Coarse and fine maps, enlarged, added and put side by side, as detectors do; the sizes are the run's."""
    def scales(factor):
        return np.array([1, 1] + [factor] * axes, np.float32)
    pads, nearest = {"pads": [1] * (2 * axes)}, {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = [("Conv", ["x", "w0"], "a", pads), ("Conv", ["a", "w1"], "b", {**pads, "strides": [2] * axes}), ("Conv", ["b", "w1"], "c", {**pads, "strides": [3] * axes}),
             ("Resize", ["c", "", "three"], "d", {}), ("Conv", ["b", "w1"], "e", pads), ("Add", "ed", "f", {}), ("Resize", ["f", "", "two"], "g", nearest),
             ("Concat", "ga", "h", {"axis": 1}), ("Conv", ["h", "w2"], "y", pads)]
    constants = {"w0": weights(random, 20, 3, *[3] * axes), "w1": weights(random, 20, 20, *[3] * axes), "w2": weights(random, 16, 40, *[3] * axes),
                 "two": scales(2), "three": scales(3)}
    model = make_model(nodes, {"x": (FLOAT, ("N", 3) + tuple("DHW"[:axes]))}, constants)
    compare(model, [{"x": random.standard_normal((2, 3) + size[:axes], dtype=np.float32)} for size in ((12, 18, 24), (6, 30, 12))], report, 5, 1, forced=True)


def test_a_mean_by_reduction(random, report):
    """As exporters of PyTorch write it, with the axes as an attribute or as a constant; a mean over other axes stays."""
    for attributes, inputs, opset, left in (({"axes": [2, 3]}, [], 13, False), ({}, ["axes"], 18, False), ({}, ["other"], 18, True), ({"keepdims": 0}, ["axes"], 18, True)):
        nodes = [("Conv", ["x", "w"], "a", {}), ("ReduceMean", ["a"] + inputs, "y", attributes)]
        model = make_model(nodes, {"x": (FLOAT, (2, 4, 9, 5))}, {"w": weights(random, 6, 4, 1, 1), "axes": np.array([-1, 2]), "other": np.array([1, 2])}, opset=opset)
        text = compare(model, [{"x": random.standard_normal((2, 4, 9, 5), dtype=np.float32)}], report, 1, 1)
        assert ("operator" in text.split("\n\n", 1)[1]) != left


def test_arithmetic_before_a_convolution_is_folded(random, report):
    """Scale and shift where no padding meets them, the scale alone where it does; groups; a constant that makes the channels more."""
    constants = {"w": weights(random, 8, 4, 1, 1), "v": weights(random, 8, 2, 3, 3), "u": weights(random, 8, 4, 1, 1), "a": f(1.5), "b": f(-.7),
                 "k": random.standard_normal((1, 4, 1, 1), dtype=np.float32), "m": random.standard_normal((4,), dtype=np.float32) ** 2 + 1}
    for chain, conv, attributes, folded in (
            ([("Mul", "a"), ("Add", "b")], "w", {}, "Mul+Add+Conv"), ([("Add", "b"), ("Mul", "k")], "w", {}, "Add+Mul+Conv"),
            ([("Add", "b"), ("Mul", "k")], "v", {"pads": [1] * 4, "group": 2}, "Mul+Conv"),
            ([("Mul", "k"), ("Add", "k")], "v", {"group": 2}, "Mul+Add+Conv"),
            ([("Mul", "a"), ("BatchNormalization", "kkkm")], "w", {}, "Mul+BatchNormalization+Conv"),
            ([("Mul", "a"), ("Add", "b")], "w", {"auto_pad": "SAME_UPPER"}, "Conv")):
        nodes, value = [], "x"
        for i, (kind, operands) in enumerate(chain):
            nodes.append((kind, [value] + (["flat"] * 2 + ["flat", "m"] if kind == "BatchNormalization" else [operands]), ["t%d" % i], {}))
            value = "t%d" % i
        model = make_model(nodes + [("Conv", [value, conv], "y", attributes)], {"x": (FLOAT, ("N", 4, "H", "W"))}, {**constants, "flat": constants["k"].ravel()})
        text = compare(model, [{"x": random.standard_normal((2, 4, 9, 8), dtype=np.float32)}], report, 1, 1)
        assert "nodes    %s\n" % folded in text
    one = make_model([("Mul", "xk", "t", {}), ("Conv", ["t", "u"], "y", {})], {"x": (FLOAT, ("N", 1, "H", "W"))}, constants)
    compare(one, [{"x": random.standard_normal((2, 1, 9, 8), dtype=np.float32)}], report, 1, 1, forced=True)


def f(number):
    return np.float32(number)


def test_a_normalisation_behind_other_steps(random, report):
    """The bias of text detection's transposed convolution is an Add before it."""
    constants = {"w": weights(random, 6, 6, 2, 2), "b": random.standard_normal((1, 6, 1, 1), dtype=np.float32)}
    constants.update({name: random.random(6, dtype=np.float32) + .5 for name in "pqrs"})
    nodes = [("ConvTranspose", ["x", "w"], "a", {"strides": [2, 2]}), ("Add", "ab", "c", {}), ("BatchNormalization", "cpqrs", "d", {}), ("Relu", "d", "y", {})]
    text = compare(make_model(nodes, {"x": (FLOAT, ("N", 6, "H", "W"))}, constants), [{"x": random.standard_normal((2, 6, 5, 4), dtype=np.float32)}], report, 1, 1)
    assert "nodes    ConvTranspose+Add+BatchNormalization+Relu\n" in text


def test_what_an_operator_reads_may_be_wanted_later(random, report):
    """A result may take the place of an operand in memory, but not of one that others still read, nor of the model's own output."""
    nodes = [("Conv", ["x", "w"], "a", {"pads": [1] * 4}), ("Relu", "a", "b", {}), ("Conv", ["x", "v"], "c", {"pads": [1] * 4}), ("Sub", "bc", "d", {}),
             ("Sub", "cd", "e", {}), ("Conv", ["e", "v"], "f", {"pads": [1] * 4}), ("Mul", "fc", "g", {}), ("Sub", "gb", "y", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 24, "H", "W"))}, {"w": weights(random, 24, 24, 3, 3), "v": weights(random, 24, 24, 3, 3)}, outputs=("d", "y"))
    compare(model, [{"x": random.standard_normal((1, 24, 30, 40), dtype=np.float32)}], report, 3, 1, forced=True)


def test_operators_without_a_layer_stay(random, report):
    nodes = [("Conv", ["x", "w"], "a", {}), ("Softmax", "a", "b", {"axis": 1}), ("Mul", "bb", "c", {}), ("Add", "cb", "y", {})]
    text = compare(make_model(nodes, {"x": (FLOAT, ("N", 4, "H", "W"))}, {"w": weights(random, 6, 4, 1, 1)}),
                   [{"x": random.standard_normal((1, 4, 5, 5), dtype=np.float32)}], report, 1, 1)
    assert text.startswith("polyconv 0.1.0: 1 of 4 nodes, 1 layers in 1 regions with 0 operators")


def test_branches_with_the_same_names(random, report):
    """An Add that certainly adds a tensor of the same shape in one branch of an If, and in the other one of the same name perhaps does not."""
    def branch(other):
        return helper.make_graph([helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Add", ["c", other], ["s"])], "branch", [],
                                 [helper.make_tensor_value_info("s", FLOAT, None)])
    for first, second in (("x", "g"), ("g", "x")):
        nodes = [("If", ["choice"], "y", {"then_branch": branch(first), "else_branch": branch(second)})]
        model = make_model(nodes, {"x": (FLOAT, (1, 8, 9, 9)), "g": (FLOAT, (1, 8, "P", "Q")), "choice": (TensorProto.BOOL, ())}, {"w": weights(random, 8, 8, 1, 1)})
        plain = without(model)
        feeds = [{"x": random.standard_normal((1, 8, 9, 9), dtype=np.float32), "g": random.standard_normal((1, 8, 1, 1), dtype=np.float32),
                  "choice": np.array(choice)} for choice in (True, False)]
        results, text = report.of(model, feeds)
        for feed, result in zip(feeds, results):
            np.testing.assert_allclose(result[0], plain.run(None, feed)[0], rtol=2e-5, atol=2e-5)
        assert "2 layers in 2 regions" in text, text


def test_sizes_that_do_not_fit_fail_with_a_sentence(random):
    nodes = [("Conv", ["x", "w"], "a", {}), ("Mul", "ag", "b", {}), ("Conv", ["b", "w"], "c", {}), ("Concat", "cx", "y", {"axis": 1})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 4, "H", "W")), "g": (FLOAT, ("N", 4, "P", "Q"))}, {"w": weights(random, 4, 4, 1, 1)})
    session, x = with_provider(model), np.ones((1, 4, 6, 6), np.float32)
    with pytest.raises(Exception, match="has operands of sizes 1x4x6x6 and 1x4x2x6, which cannot be broadcast"):
        session.run(None, {"x": x, "g": np.ones((1, 4, 2, 6), np.float32)})
    assert session.run(None, {"x": x, "g": np.ones((1, 4, 1, 6), np.float32)})[0].shape == (1, 8, 6, 6)
    model = make_model([("Conv", ["x", "w"], "a", {"strides": [2, 2]}), ("Concat", "ax", "y", {"axis": 1})],
                       {"x": (FLOAT, ("N", 4, "H", "W"))}, {"w": weights(random, 4, 4, 1, 1)})
    with pytest.raises(Exception, match="1x4x3x3 and 1x4x6x6, which differ in more than their channels"):
        with_provider(model).run(None, {"x": x})


def test_the_report_tells_of_operators(random, report):
    text = compare(excitation(random, True, True), [{"x": random.standard_normal((1, 3, 14, 14), dtype=np.float32)}], report, 5, 1)
    assert re.search(r"\noperator c\n  nodes    GlobalAveragePool\n  runs     1, plans 1\n  time  ", text), text
    assert "5 layers in 1 regions with 4 operators between them" in text
