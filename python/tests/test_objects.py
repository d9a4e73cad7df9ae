"""Problem, Plan, Weights, Chain, explain, and what is there."""
# SPDX-License-Identifier: Apache-2.0

import pickle
import threading

import numpy
import pytest
import reference

import polyconv


def test_problem():
    token = "fwd:n2,c64,k32,g2,i56x28,f3x3,s2,p1:nhwc:f16:bias+relu"
    problem = polyconv.Problem(token)
    assert repr(problem) == token == problem.token
    assert problem.in_channels == 64 and problem.input_size == (56, 28) and problem.has_bias == 1
    by_fields = polyconv.Problem(
        batch=2,
        in_channels=64,
        out_channels=32,
        groups=2,
        input_size=(56, 28),
        kernel_size=3,
        stride=2,
        pad=1,
        layout="channels_last",
        dtype="float16",
        bias=True,
        activation="relu",
    )
    assert by_fields == problem and hash(by_fields) == hash(problem)
    assert pickle.loads(pickle.dumps(problem)) == problem
    output = problem.tensor("output")
    assert output.shape == (2, 32, 28, 14) and output.dtype == "f16" and output.strides == (12544, 1, 448, 32)
    assert problem.tensor("residual") is None
    assert problem.flops == 2 * 2 * 32 * 28 * 14 * 32 * 9
    with pytest.raises(AttributeError):
        problem.in_chanels
    for words, settings in (
        ("input_size", dict()),
        ("'kernel' is no field", dict(input_size=(8, 8), kernel=3)),
        ("in_channels is 'three'", dict(input_size=(8, 8), in_channels="three")),
        ("groups", dict(input_size=(8, 8), in_channels=3, groups=2)),
        ("layout is 'nhcw'", dict(input_size=(8, 8), layout="nhcw")),
        (r"kernel_size is \(3,\), expected 2", dict(input_size=(8, 8), kernel_size=(3,))),
        ("stride is 2.0, expected whole", dict(input_size=(8, 8), stride=2.0)),
        ("input_strides has 3 numbers, expected 4", dict(input_size=(8, 8), has_input_strides=1, input_strides=(64, 8, 1))),
        ("residual is 'input', expected True", dict(input_size=(8, 8), residual="input")),
        ("spatial_dims is 7", dict(input_size=(8,) * 7)),
    ):
        with pytest.raises(polyconv.InvalidArgument, match=words):
            polyconv.Problem(**settings)
    assert polyconv.Problem(input_size=(8, 8), kernel_size=numpy.int64(3)).kernel_size == (3, 3)
    with pytest.raises(polyconv.InvalidArgument, match="without NUL"):
        polyconv.Problem("fwd:i8x8\0:bias")
    with pytest.raises(polyconv.InvalidArgument, match="z9"):
        polyconv.Problem("fwd:z9,i8x8")


def test_plan(draw):
    plan = polyconv.Plan("fwd:n2,c3,k4,i8x8,f3x3,p1:bias+relu")
    x, w, bias = draw(2, 3, 8, 8), draw(4, 3, 3, 3), draw(4)
    wanted = numpy.maximum(reference.conv(x, w, bias, padding=1), 0)
    numpy.testing.assert_array_equal(plan.run(x, w, bias), wanted)
    weights = plan.pack(w)
    out = numpy.empty_like(wanted, dtype="float32")
    assert plan(x, weights, bias, out=out) is out
    numpy.testing.assert_array_equal(out, wanted)
    assert plan.kernel.startswith("threads/") and plan.problems == (polyconv.Problem("fwd:n2,c3,k4,i8x8,f3x3,p1:bias+relu"),)
    with pytest.raises(polyconv.InvalidArgument, match=r"x has shape \(2, 3, 8, 9\), expected \(2, 3, 8, 8\)"):
        plan.run(draw(2, 3, 8, 9), w, bias)
    with pytest.raises(polyconv.InvalidArgument, match="bias"):
        plan.run(x, w)
    with pytest.raises(polyconv.InvalidArgument, match="strides"):
        plan.run(draw(2, 3, 8, 16)[..., ::2], w, bias)
    with pytest.raises(polyconv.InvalidArgument, match="'speed' is no option"):
        polyconv.Plan("fwd:i8x8", speed=3)
    with pytest.raises(polyconv.Unsupported):
        polyconv.Plan("bwd_w:i8x8,f3x3", determinism="invariant")


def test_layouts_of_plans(draw):
    plan = polyconv.Plan("fwd:n2,c3,k4,i8x8,f3x3:nhwc")
    x, w = draw(2, 8, 8, 3).transpose(0, 3, 1, 2), draw(4, 3, 3, 3)
    result = plan.run(x, w)
    assert result.transpose(0, 2, 3, 1).flags.c_contiguous
    numpy.testing.assert_array_equal(result, reference.conv(x, w))


def test_packed_weights(draw, tmp_path):
    w = draw(16, 16, 3, 3)
    plan = polyconv.Plan("fwd:c16,k16,i12x12,f3x3,p1", kernel="threads/dense*", dynamic_weights=True)
    weights = plan.pack(w)
    x = draw(1, 16, 12, 12)
    numpy.testing.assert_array_equal(polyconv.conv(x, weights, padding=1), reference.conv(x, w, padding=1))
    larger = draw(3, 16, 20, 12)  # another batch and size take the same weights
    numpy.testing.assert_array_equal(polyconv.conv(larger, weights, padding=1), reference.conv(larger, w, padding=1))
    assert weights.format == plan.weights_format() and weights.bytes > 0
    path = tmp_path / "weights"
    weights.save(path)
    with pytest.raises(polyconv.InvalidArgument, match="path is .*without NUL"):
        weights.save(f"{path}\0.tmp")
    numpy.testing.assert_array_equal(plan.run(x, plan.load(path)), reference.conv(x, w, padding=1))
    other = numpy.ascontiguousarray(w[::-1])
    plan.repack(weights, other)
    numpy.testing.assert_array_equal(plan.run(x, weights), reference.conv(x, other, padding=1))
    with pytest.raises(polyconv.InvalidArgument, match="format"):
        polyconv.Plan("fwd:c16,k16,g16,i12x12,f3x3,p1").run(x, weights)


def test_packed_weights_of_strides(draw):
    """Where a kernel takes weights raw, packed ones lie as they were given, and conv says so of its problem."""
    x, w = draw(1, 2, 5, 5), draw(3, 2, 3, 3)
    turned = numpy.ascontiguousarray(w.transpose()).transpose()
    plan = polyconv.Plan("fwd:c2,k3,i5x5,f3x3:ws=1.3.6.18", kernel="reference/*", fallback="allow")
    assert plan.weights_format() == "raw"
    numpy.testing.assert_array_equal(polyconv.conv(x, plan.pack(turned)), reference.conv(x, w))
    with pytest.raises(polyconv.InvalidArgument, match="ws=1.3.6.18"):
        polyconv.Plan("fwd:c2,k3,i5x5,f3x3", kernel="reference/*", fallback="allow").run(x, plan.pack(turned))


def test_weights_that_are_new_in_every_run(draw):
    plan = polyconv.Plan("fwd:c16,k16,i12x12,f3x3,p1", kernel="threads/dense*", new_weights=True)
    x, w = draw(1, 16, 12, 12), draw(16, 16, 3, 3)
    weights = plan.pack(w)
    for each in (w, numpy.ascontiguousarray(w[::-1])):
        plan.repack(weights, each)
        numpy.testing.assert_array_equal(plan.run(x, weights), reference.conv(x, each, padding=1))


def test_chain(draw):
    tokens = ["fwd:c3,k8,i16x16,f3x3,p1:bias+relu", "fwd:c8,k4,i16x16,f3x3,p1:bias"]
    chain = polyconv.Chain(tokens)
    x, w, bias = draw(1, 3, 16, 16), [draw(8, 3, 3, 3), draw(4, 8, 3, 3)], [draw(8), draw(4)]
    first = numpy.maximum(reference.conv(x, w[0], bias[0], padding=1), 0)
    numpy.testing.assert_array_equal(chain.run(x, w, bias), reference.conv(first, w[1], bias[1], padding=1))
    with pytest.raises(polyconv.InvalidArgument, match="w has 1 entries, expected 2"):
        chain.run(x, w[:1], bias)
    with pytest.raises(polyconv.InvalidArgument, match="problems is"):
        polyconv.Chain("fwd:i8x8")


def test_explain():
    explanation = polyconv.explain("fwd:c64,k64,i56x56,f3x3,p1")
    assert explanation.chosen.kernel in str(explanation) and explanation.chosen.accepted
    rejected = [one for one in explanation.candidates if not one.accepted]
    assert rejected and all(one.reason for one in rejected)
    table = explanation._repr_html_()
    assert table.count("<tr") == len(explanation.candidates) + 1 and explanation.chosen.kernel in table
    assert explanation.chosen.kernel == polyconv.Plan("fwd:c64,k64,i56x56,f3x3,p1").kernel


def test_tune():
    plan = polyconv.tune("fwd:c8,k8,i16x16,f3x3", 20)
    assert plan.estimate_us > 0 and plan.kernel


def test_what_is_there():
    names = {one.name: one for one in polyconv.backends()}
    assert names["threads"].available and "threads/dense" in names["threads"].kernels
    assert polyconv.devices()[0].name == "cpu" and polyconv.devices()[0].compute_units >= 1
    assert polyconv.__version__.count(".") == 2


def test_threads_share_a_plan():
    """Results of several threads at once are those of one, for a plan and for conv."""
    generator = numpy.random.default_rng(5)
    xs = [generator.standard_normal((2, 16, 20, 20)).astype("f") for _ in range(8)]
    w = generator.standard_normal((16, 16, 3, 3)).astype("f")
    plan = polyconv.Plan("fwd:n2,c16,k16,i20x20,f3x3,p1")
    weights = plan.pack(w)
    wanted = [plan.run(x, weights) for x in xs]
    wrong = []

    def work(i):
        for _ in range(20):
            if not (plan.run(xs[i], weights) == wanted[i]).all() or not (
                polyconv.conv(xs[i], weights, padding=1) == wanted[i]
            ).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
