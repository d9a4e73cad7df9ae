"""What only a session on a GPU has: float16, tensors that go between host and GPU, memory that is kept, and several runs at once.

Where there is no GPU, `check.sh` runs these on one whose memory the host cannot read and whose streams do nothing until somebody
waits (tests/fake_backends/gpu), and with POLYCONV_TEST_DEVICE=cuda the other tests too.
"""

import threading

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import polyconv_onnxruntime
from conftest import DEVICE, make_model, with_provider, without

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="POLYCONV_TEST_DEVICE names no GPU")
FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def weights(random, *shape):
    return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def every_operator(random, kind):
    """A network with each operator between layers, of which all is one region."""
    constants = {"w": weights(random, 8, 3, 3, 3), "b": weights(random, 8, 1)[:, 0], "v": weights(random, 8, 8, 1, 1), "u": weights(random, 4, 16, 1, 1),
                 "scale": weights(random, 8, 1, 1), "shift": weights(random, 8, 1, 1), "two": np.array([1, 1, 2, 2], np.float32)}
    if kind == HALF:
        constants = {name: array if name == "two" else array.astype(np.float16) for name, array in constants.items()}
    nodes = [("Conv", ["x", "w", "b"], "a", {"pads": [1] * 4}), ("Mul", ["a", "scale"], "m", {}), ("HardSwish", ["m"], "h", {}),
             ("Conv", ["h", "v"], "c", {}), ("Add", ["c", "h"], "s", {}), ("LeakyRelu", ["s"], "l", {"alpha": 0.1}),
             ("GlobalAveragePool", ["l"], "g", {}), ("HardSigmoid", ["g"], ["gate"], {}), ("Mul", ["l", "gate"], ["gated"], {}),
             ("Sub", ["gated", "h"], "d", {}), ("Add", ["d", "shift"], "e", {}), ("Clip", ["e"], "k", {}),
             ("Concat", ["k", "l"], "j", {"axis": 1}), ("Resize", ["j", "", "two"], "r", {
                 "mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
             ("Conv", ["r", "u"], "y", {})]
    return nodes, constants


@pytest.mark.parametrize("kind", [FLOAT, HALF], ids=["float", "float16"])
def test_every_operator(random, report, kind):
    nodes, constants = every_operator(random, kind)
    wide = {name: array.astype(np.float32) for name, array in constants.items()}
    truth = without(make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, wide))
    feeds = [random.standard_normal((n, 3, h, 7)).astype(np.float32) for n, h in ((2, 9), (1, 5))]
    results, text = report.of(make_model(nodes, {"x": (kind, ("N", 3, "H", "W"))}, constants),
                              [{"x": x.astype(np.float16) if kind == HALF else x} for x in feeds], optimised=False)
    assert "15 of 15 nodes, 3 layers in 1 regions" in text, text
    for x, (result,) in zip(feeds, results):
        expected = truth.run(None, {"x": x})[0]
        assert result.dtype == (np.float16 if kind == HALF else np.float32)
        np.testing.assert_allclose(result, expected, rtol=1e-2 if kind == HALF else 2e-5, atol=1e-2 if kind == HALF else 2e-5)


def test_half_with_normalisation(random):
    """Folded into weights of float16, by constants of float."""
    constants = {"w": weights(random, 6, 3, 3, 3).astype(np.float16), "b": weights(random, 6, 1)[:, 0].astype(np.float16)}
    for name in ("scale", "shift", "mean", "variance"):
        constants[name] = (np.abs(random.standard_normal(6)) + 0.5).astype(np.float32)
    nodes = [("Conv", ["x", "w", "b"], "a", {}), ("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], "n", {}), ("Relu", "n", "y", {})]
    x = random.standard_normal((2, 3, 8, 8)).astype(np.float16)
    expected = without(make_model(nodes, {"x": (FLOAT, (2, 3, 8, 8))}, {name: array.astype(np.float32) for name, array in constants.items()}))
    result = with_provider(make_model(nodes, {"x": (HALF, (2, 3, 8, 8))}, constants), forced=True).run(None, {"x": x})[0]
    np.testing.assert_allclose(result, expected.run(None, {"x": x.astype(np.float32)})[0], rtol=1e-2, atol=1e-2)


def test_between_nodes_of_the_host(random):
    """Softmax and Sum stay on the host: tensors go there and back, one is read on both sides."""
    constants = {"w": weights(random, 4, 4, 3, 3), "v": weights(random, 4, 4, 1, 1)}
    nodes = [("Softmax", ["x"], "s", {"axis": 1}), ("Conv", ["s", "w"], "a", {"pads": [1] * 4}), ("Softmax", ["a"], "t", {"axis": 1}),
             ("Conv", ["t", "v"], "b", {}), ("Sum", ["a", "b", "s"], "y", {})]
    model = make_model(nodes, {"x": (FLOAT, ("N", 4, "H", "W"))}, constants)
    ours, theirs = with_provider(model), without(model)
    for size in (9, 3, 9):
        x = random.standard_normal((2, 4, size, size)).astype(np.float32)
        np.testing.assert_allclose(ours.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0], rtol=2e-5, atol=2e-5)


def test_several_runs_at_once(random):
    """Each has a stream of its own, and no memory that another run still uses."""
    nodes, constants = every_operator(random, FLOAT)
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants)
    ours, theirs = with_provider(model), without(model)
    images = [random.standard_normal((1, 3, 6 + i % 3, 7)).astype(np.float32) for i in range(12)]
    results = [None] * len(images)

    def work(first):
        for i in range(first, len(images), 3):
            results[i] = ours.run(None, {"x": images[i]})[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for image, result in zip(images, results):
        np.testing.assert_allclose(result, theirs.run(None, {"x": image})[0], rtol=2e-5, atol=2e-5)


def test_sessions_beside_each_other(random):
    """One on the host and one on each GPU."""
    nodes, constants = every_operator(random, FLOAT)
    model = make_model(nodes, {"x": (FLOAT, ("N", 3, "H", "W"))}, constants)
    x = random.standard_normal((1, 3, 8, 8)).astype(np.float32)
    expected = without(model).run(None, {"x": x})[0]
    sessions = [with_provider(model, device=device) for device in polyconv_onnxruntime.devices()]
    assert len(sessions) >= 2
    for session in sessions + sessions:
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=2e-5, atol=2e-5)


def test_a_device_that_there_is_not():
    with pytest.raises(RuntimeError, match=r"device is 'cuda:9', expected one of cpu, cuda:0"):
        polyconv_onnxruntime.options(device="cuda:9")


def test_results_are_bound_where_they_are(random):
    """Input and result stay on the GPU from one session to the next, as ONNX Runtime's binding has them."""
    model = make_model([("Conv", ["x", "w"], "y", {"pads": [1] * 4})], {"x": (FLOAT, (1, 4, 8, 8))}, {"w": weights(random, 4, 4, 3, 3)})
    ours, theirs = with_provider(model), without(model)
    x = random.standard_normal((1, 4, 8, 8)).astype(np.float32)
    binding = ours.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    ours.run_with_iobinding(binding)
    np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], theirs.run(None, {"x": x})[0], rtol=2e-5, atol=2e-5)
    assert isinstance(binding.get_outputs()[0], onnxruntime.OrtValue)
