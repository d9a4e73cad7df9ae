"""What the tests share: models of a few nodes, sessions with and without the provider, and its report."""

import gc
import os

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import polyconv_onnxruntime


def make_model(nodes, inputs, constants, outputs=("y",), opset=21):
    """`nodes` are (type, inputs, outputs, attributes); `inputs` name: (type, shape); `constants` name: array."""
    made = [helper.make_node(kind, list(ins), list(outs), domain=attributes.pop("domain", ""), **attributes)
            for kind, ins, outs, attributes in ((k, i, o, dict(a)) for k, i, o, a in nodes)]
    graph = helper.make_graph(
        made, "g", [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]).SerializeToString()


DEVICE = os.environ.get("POLYCONV_TEST_DEVICE", "cpu")  # where the provider's sessions are


def with_provider(model, forced=False, optimised=True, **options):
    options.setdefault("device", DEVICE)
    session_options = onnxruntime.SessionOptions()
    if forced:
        session_options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if not optimised:
        session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Without enable_fallback=0 Python's part of older runtimes makes another session, without the provider, when one fails.
    return onnxruntime.InferenceSession(model, polyconv_onnxruntime.options(session_options, **options), enable_fallback=0)


def without(model, optimised=True):
    """Its own products of bytes overflow on processors without VNNI unless it is asked to be exact."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def growth_over_sizes(session, channels, least):
    """Bytes that the process grows by while images of 100 sizes from `least` on go through, largest first, after 100 others did."""
    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def churn(sizes):
        for size in sizes:
            session.run(None, {"x": np.ones((1, channels, size, size), np.float32)})

    churn(range(least + 99, least - 1, -1))
    before = resident()
    churn(range(least + 100, least, -1))
    return resident() - before


class Report:
    """Runs a model with the provider and reads what it reported."""

    def __init__(self, folder):
        self.path = str(folder / "report.txt")

    def of(self, model, feeds, **options):
        session = with_provider(model, report=self.path, profile=True, **options)
        results = [session.run(None, feed) for feed in feeds]
        del session
        with open(self.path) as file:
            return results, file.read()


@pytest.fixture
def report(tmp_path):
    return Report(tmp_path)


@pytest.fixture
def random():
    return np.random.default_rng(7)
