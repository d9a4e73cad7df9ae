"""Bad arguments: an exception that names argument, value and expectation, and nothing written."""
# SPDX-License-Identifier: Apache-2.0

import gc
import sys
import threading

import numpy
import pytest

import polyconv

X, W = numpy.ones((2, 3, 8, 8), "float32"), numpy.ones((4, 3, 3, 3), "float32")


def refused(words, *arguments, function=polyconv.conv, kind=polyconv.InvalidArgument, **settings):
    """The call must be refused in a sentence that has all these words."""
    out = settings.get("out")
    before = out.copy() if out is not None else None
    with pytest.raises(kind) as caught:
        function(*arguments, **settings)
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    if out is not None:
        numpy.testing.assert_array_equal(out, before)


def test_shapes():
    refused(["x has 2 axes", "(8, 8)", "expected 4"], X[0, 0], W)
    refused(["w has shape", "(4, 2, 3, 3)", "3 channels of x"], X, W[:, :2])
    refused(["w has shape", "(3, 3)", "out channels"], X, W[0, 0])
    refused(["groups=2", "6", "3 channels"], X, W, groups=2)
    refused(["groups is 0", "at least 1"], X, W, groups=0)
    refused(["bias", "(3,)", "(4,)"], X, W, numpy.ones(3, "float32"))
    refused(["residual", "(2, 4, 5, 5)", "(2, 4, 6, 6)"], X, W, residual=numpy.ones((2, 4, 5, 5), "float32"))
    refused(["out", "(2, 4, 5, 6)", "(2, 4, 6, 6)"], X, W, out=numpy.ones((2, 4, 5, 6), "float32"))
    refused(["7 axes", "at most 5"], numpy.ones((1,) * 7, "float32"), W)
    refused(["kernel", "(3,)", "rows and columns"], X[0, 0], numpy.ones(3), function=polyconv.filter)
    refused(["shape", "(2, 4, 5, 5)"], numpy.ones((2, 4, 5, 5), "float32"), W, X.shape, function=polyconv.grad_input)


def test_shapes_of_gradients():
    grad = numpy.ones((2, 4, 6, 6), "float32")
    refused(["shape is 3"], grad, W, 3, function=polyconv.grad_input)
    refused(["the 5 channels of shape"], grad, W, (2, 5, 8, 8), function=polyconv.grad_input)
    refused(["grad has shape (2, 4, 6, 6)", "(2, 4, 7, 6)"], grad, W, (2, 3, 9, 8), function=polyconv.grad_input)
    refused(["shape", "(4, 3)"], X, grad, (4, 3), function=polyconv.grad_weight)
    refused(["3 channels of x"], X, grad, (4, 2, 3, 3), function=polyconv.grad_weight)
    out = numpy.zeros((4, 3, 3, 3), "float32")
    refused(["out has shape (4, 3, 3, 3)"], X, grad, (4, 3, 3, 2), function=polyconv.grad_weight, out=out)
    refused(["out has shape"], grad, W, X.shape, function=polyconv.grad_input, out=numpy.zeros((2, 3, 8, 9), "float32"))


def test_types():
    refused(["x has dtype int64", "f32"], X.astype("int64"), W)
    refused(["x has dtype >f4"], X.astype(">f4"), W)
    refused(["x has dtype bool"], X > 0, W)
    refused(["weights_type", "f64", "f32"], X, W.astype("float64"))
    refused(["bias is f64", "f32"], X, W, numpy.ones(4))
    refused(["out is f64", "f32"], X, W, out=numpy.ones((2, 4, 6, 6)), dtype="f32")
    refused(["dtype is 'f31'"], X, W, dtype="f31")
    refused(["x is a builtins.list", "expected an array"], [1.0], W)
    refused(["x is None"], None, W)
    refused(["w is None"], X, None)


def test_settings():
    refused(["stride is (1, 2, 3)", "2 numbers"], X, W, stride=(1, 2, 3))
    refused(["stride is 'two'"], X, W, stride="two")
    refused(["stride[0]", "0"], X, W, stride=0)
    refused(["padding is 'most'", "'same'"], X, W, padding="most")
    refused(["padding is ((1, 1),)", "2 pairs"], X, W, padding=[(1, 1)])
    refused(["padding_mode is 'mirror'", "'reflect'"], X, W, padding_mode="mirror")
    refused(["activation is 'rule'", "'relu'"], X, W, activation="rule")
    refused(["activation is ('relu', 3)"], X, W, activation=("relu", 3))
    refused(["math is 'best'", "'strict'"], X, W, math="best")
    refused(["determinism is 'yes'"], X, W, determinism="yes")
    refused(["pool is 'max'"], X, W, pool="max")
    refused(["pool.kind is 'min'"], X, W, pool=("min", 2))
    refused(["nobody"], X, W, kernel="nobody/*", kind=polyconv.Error)
    refused(["padding is 'same'"], X, W.transpose(1, 0, 2, 3), function=polyconv.conv_transpose, padding="same")


@pytest.mark.parametrize(
    "name, value",
    [
        ("pad_value", "much"), ("pad_value", None), ("threads", "two"), ("threads", 1.5), ("threads", 10**30), ("kernel", 3), ("flip", "yes"),
        ("channels_last", "yes"), ("residual_scale", "x"), ("activation", {}), ("activation", ("elu", "x")), ("stream", "x"), ("groups", "x"),
        ("stride", {1}), ("pool", polyconv.Pool("max", 2, ceil="up")),
    ],
)  # fmt: skip
def test_each_setting_is_named(name, value):
    refused([name, "expected"], X, W, residual=numpy.ones((2, 4, 6, 6), "f"), **{name: value})


@pytest.mark.parametrize(
    "name, taken, equal",
    [
        ("stride", 1, 1.0), ("padding", ((1, 1), (1, 1)), ((1, 1), (1.0, 1))), ("groups", 1, True), ("dilation", 1, True),
        ("threads", 0, 0.0), ("flip", False, 0.0),
    ],
)  # fmt: skip
def test_what_equals_a_setting_that_was_taken_is_no_setting(name, taken, equal):
    """The cache finds settings by ==, and 1 == 1.0 == True: whether a call is refused may not hang on those before it."""
    polyconv.conv(X, W, **{name: taken})
    refused([name, "expected"], X, W, **{name: equal})


def test_settings_of_numpy():
    x = numpy.random.default_rng(0).standard_normal((1, 3, 9, 9)).astype("f")
    result = polyconv.conv(x, W, stride=numpy.array([2, 1]), padding=numpy.int64(1))
    numpy.testing.assert_array_equal(result, polyconv.conv(x, W, stride=(2, 1), padding=1))


def test_arguments_of_objects():
    plan, budget = polyconv.Plan("fwd:n2,c3,k4,i8x8,f3x3", dynamic_weights=True), ["budget_ms", "at least 0"]
    refused(["device is 0", "'cuda:0'"], "fwd:i8x8,f3x3", function=polyconv.Plan, device=0)
    refused(["threads is 'a'", "whole number"], "fwd:i8x8,f3x3", function=polyconv.Plan, threads="a")
    refused(["dynamic_weights is 2", "True or False"], "fwd:i8x8,f3x3", function=polyconv.Plan, dynamic_weights=2)
    refused(["new_weights is 2", "True or False"], "fwd:i8x8,f3x3", function=polyconv.Plan, new_weights=2)
    refused(["x is None"], None, W, function=plan.run)
    refused(["w is None"], None, function=plan.pack)
    refused(["layer is -1", "below 1"], W, function=plan.pack, layer=-1)
    refused(["layer is 1", "below 1"], 1, function=plan.weights_format)
    refused(["weights is a ndarray"], W, W, function=plan.repack)
    refused([*budget, "'x'"], "fwd:i8x8,f3x3", "x", function=polyconv.tune)
    refused([*budget, "-1"], ["fwd:i8x8,f3x3"], -1, function=polyconv.tune_layers)
    refused(["entries is 'x'"], "x", function=polyconv.cache_limit)
    refused(["bytes is -1"], 3, -1, function=polyconv.cache_limit)
    refused(["bytes is", "at most"], 3, 2**70, function=polyconv.cache_limit)
    refused(["device is", "without NUL"], "fwd:i8x8,f3x3", function=polyconv.Plan, device="cpu\0:1")


def between_elements(array):
    """A copy that begins one byte behind where an element may."""
    copy = numpy.zeros(array.nbytes + 1, "uint8")[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_arrays_between_addresses():
    refused(["x lies at address", "multiple of 4"], between_elements(X), W)
    refused(["w lies at address", "multiple of 4"], X, between_elements(W))
    plan, w = polyconv.Plan("fwd:n2,c3,k4,i8x8,f3x3"), between_elements(W)
    holders = sys.getrefcount(w)
    refused(["w lies at address"], w, function=plan.pack)
    gc.collect()  # the exception, and the frames that it holds
    assert sys.getrefcount(w) == holders  # what was refused is held no longer


def test_arrays_whose_memory_says_something_else():
    refused(["x is a masked array", "filled"], numpy.ma.masked_array(X, mask=X > 0), W)
    refused(["kernel is", "real numbers"], X[0, 0], numpy.ones((3, 3)) * 1j, function=polyconv.filter)


def test_tensors_of_pytorch_without_plain_memory():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    refused(["x is a tensor that requires grad", "x.detach()"], x.clone().requires_grad_(), W)
    refused(["x is on device meta"], x.to("meta"), W)
    refused(["x is a tensor without memory", "dense"], x.to_sparse(), W)
    refused(["x is a view whose numbers are negated", "resolve_neg"], torch.complex(x, x).conj().imag, W)
    assert polyconv.conv(torch.complex(x, x).conj().imag.resolve_neg(), W).shape == (2, 4, 6, 6)
    if hasattr(torch, "func"):
        vmap = torch.func.vmap(lambda one: polyconv.conv(one[None], torch.from_numpy(W)))
        refused(["x is a tensor without memory"], x, function=vmap)


def test_outputs_that_cannot_be_written():
    out = numpy.zeros((2, 4, 6, 6), "float32")
    frozen = out.view()
    frozen.flags.writeable = False
    refused(["out is read-only"], X, W, out=frozen)
    refused(["output"], X, W, out=numpy.zeros((2, 4, 6, 12), "float32")[:, :, :, ::-2])
    refused(["output"], X, W, out=numpy.lib.stride_tricks.as_strided(out, out.shape, (576, 0, 24, 4)))


def test_overlap():
    memory = numpy.zeros(2 * 3 * 8 * 8 + 8, "float32")
    x = memory[: X.size].reshape(X.shape)
    w = numpy.ones((3, 3, 1, 1), "float32")
    refused(["overlap"], x, w, out=memory[8:].reshape(X.shape))


def test_negative_strides():
    """An input may be walked backwards (test_functions.py); nothing else may."""
    refused(["weights_strides", "-"], X, W[:, :, ::-1])
    refused(["bias has shape (4,)", "strides (-1,)", "dense"], X, W, numpy.ones(4, "float32")[::-1])
    refused(["residual has strides", "-1", "dense"], X, W, residual=numpy.ones((2, 4, 6, 6), "float32")[..., ::-1])


class OnTheGpu:
    """Looks like an array of CUDA's; nobody gets as far as its memory."""

    def __init__(self, array):
        self.dtype, self.shape = array.dtype, array.shape
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


def test_two_devices():
    out = numpy.zeros((2, 4, 6, 6), "float32")
    refused(["w is on cuda:0 and x on the CPU", "one device"], X, OnTheGpu(W), out=out)
    refused(["w is on the CPU and x on cuda:0"], OnTheGpu(X), W)
    refused(["bias is on cuda:0"], X, W, OnTheGpu(numpy.ones(4, "float32")), out=out)
    with pytest.raises(polyconv.InvalidArgument, match="out is on cuda:0 and x on the CPU"):
        polyconv.conv(X, W, out=OnTheGpu(out))
    plan = polyconv.Plan("fwd:n2,c3,k4,i8x8,f3x3")
    with pytest.raises(polyconv.InvalidArgument, match="x is on cuda:0, expected cpu, the plan's device"):
        plan.run(OnTheGpu(X), W)


def test_weights_that_change_while_a_run_reads_them():
    """The change is refused, and what the run reads stays as it was."""
    generator = numpy.random.default_rng(3)
    x, w = (generator.standard_normal(shape).astype("f") for shape in ((1, 32, 96, 96), (32, 32, 3, 3)))
    plan = polyconv.Plan("fwd:c32,k32,i96x96,f3x3,p1", kernel="threads/dense*", threads=1, dynamic_weights=True)
    weights = plan.pack(w)
    wanted, stop, results = plan.run(x, weights), threading.Event(), []

    def work():
        while not stop.is_set():
            results[:] = [plan.run(x, weights)]

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(100000):  # between two runs it is not refused
            try:
                plan.repack(weights, w)
            except polyconv.InvalidArgument as error:
                assert "weights: 1 runs are reading them, expected none while they change" in str(error)
                break
        else:
            raise AssertionError("a change was never refused")
    finally:
        stop.set()
        thread.join()
    numpy.testing.assert_array_equal(results[0], wanted)


def test_exceptions_are_pythons_own_kinds_too():
    assert issubclass(polyconv.InvalidArgument, ValueError) and issubclass(polyconv.InvalidArgument, polyconv.Error)
    assert issubclass(polyconv.OutOfMemory, MemoryError)
    with pytest.raises(polyconv.Unavailable, match="cuda:99"):
        polyconv.Plan("fwd:i8x8,f3x3", device="cuda:99")
    with pytest.raises(polyconv.Unavailable, match="toaster"):
        polyconv.Plan("fwd:i8x8,f3x3", device="toaster")
    with pytest.raises(polyconv.FileError):
        polyconv.Plan("fwd:c8,k8,i8x8,f3x3", kernel="threads/dense*").load("/nowhere/at/all")
