"""ONNX's own backend node tests of every convolution and pooling operator, through the provider.

Each runs twice: as any session would, and, where all its nodes are convolutions, forced, so that ONNX Runtime's CPU provider
cannot have computed it. What the runtime alone fails is skipped with its words where
it has no convolution, or needs a newer ONNX than the runtime has.
"""

import warnings

import numpy as np
import onnxruntime
import pytest

from conftest import DEVICE, with_provider

OPERATORS = {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv", "MaxPool", "AveragePool", "LpPool",
             "GlobalMaxPool", "GlobalAveragePool", "MaxUnpool"}
CONVOLUTIONS = {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv"}
# Its output_shape is larger than what is computed, which no kernel of a real GPU takes; those of the one in the tests do.
UNTAKEN_ON_GPU = "test_convtranspose_output_shape"


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        found = [case for case in collect_testcases(None) if any(n.op_type in OPERATORS for n in case.model.graph.node)]
    assert len(found) >= 60, "ONNX's node tests of convolution and pooling are not where they were"
    return found


CASES = cases()


def check(case, session):
    for inputs, outputs in case.data_sets:
        results = session.run(None, {value.name: np.asarray(array) for value, array in zip(case.model.graph.input, inputs)})
        for result, expected in zip(results, outputs):
            np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=max(case.atol, 1e-5 if case.rtol else 0))
            assert result.dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_any_session(case):
    model = case.model.SerializeToString()
    try:
        check(case, onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]))
    except Exception as failure:  # pylint: disable=broad-except
        newer = "ValidateOpsetForDomain" in str(failure) or "opset" in str(failure).lower()
        if newer or not any(node.op_type in CONVOLUTIONS for node in case.model.graph.node):
            pytest.skip("ONNX Runtime %s alone: %s" % (onnxruntime.__version__, " ".join(str(failure).split())[:120]))
    check(case, with_provider(model))


@pytest.mark.parametrize("case", [c for c in CASES if all(n.op_type in CONVOLUTIONS for n in c.model.graph.node)],
                         ids=lambda case: case.name)
def test_forced(case, tmp_path):
    model = case.model.SerializeToString()
    try:
        session = with_provider(model, forced=True)
    except Exception as failure:  # pylint: disable=broad-except
        if DEVICE == "cpu" or case.name != UNTAKEN_ON_GPU or "fallback to CPU EP" not in str(failure):
            raise
        session = with_provider(model, report=tmp_path / "report")
        check(case, session)
        del session
        assert "\nleft " in (tmp_path / "report").read_text()
        return
    check(case, session)
