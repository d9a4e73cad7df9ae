"""polyconv.jax: JAX's convolution on polyconv, held against jax.lax itself."""
# SPDX-License-Identifier: Apache-2.0

import numpy
import pytest

jax = pytest.importorskip("jax")

import polyconv  # noqa: E402
import polyconv.jax as face  # noqa: E402
from jax import lax, numpy as jnp  # noqa: E402


@pytest.fixture(autouse=True)
def alone():
    from polyconv.errors import Unsupported
    from polyconv.jax import _call

    try:
        _call.library()
    except Unsupported as error:
        pytest.skip(str(error))
    face.cache_clear()


def numbers(*shape, dtype="float32", seed=0):
    """Small whole numbers: sums of their products are exact in every type."""
    return jnp.asarray(numpy.random.default_rng([seed, *shape]).integers(-2, 3, shape), dtype)


CASES = [
    ((2, 8, 10, 12), (6, 8, 3, 3), dict(window_strides=(1, 1), padding="SAME")),
    ((2, 8, 10, 12), (6, 4, 3, 3), dict(window_strides=(2, 1), padding="SAME", rhs_dilation=(1, 2), feature_group_count=2)),
    ((2, 8, 11), (6, 8, 3), dict(window_strides=(2,), padding="VALID")),
    ((1, 4, 5, 6, 7), (6, 4, 3, 2, 1), dict(window_strides=(1, 2, 1), padding=[(1, 1), (0, 1), (0, 0)])),
    ((2, 10, 12, 8), (3, 3, 8, 6), dict(window_strides=(1, 1), padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))),
    ((2, 10, 12, 8), (6, 3, 3, 8), dict(window_strides=(2, 2), padding=((1, 2), (0, 1)), dimension_numbers=("NHWC", "OHWI", "NCHW"))),
    ((2, 9, 9, 8), (3, 3, 1, 8), dict(window_strides=(1, 1), padding="SAME", feature_group_count=8, dimension_numbers=("NHWC", "HWIO", "NHWC"))),
    # transposed
    ((2, 8, 5, 6), (6, 8, 3, 4), dict(window_strides=(1, 1), padding=((1, 2), (2, 1)), lhs_dilation=(2, 3), rhs_dilation=(2, 1))),
    ((2, 5, 6, 4), (3, 3, 1, 8), dict(window_strides=(1, 1), padding=((2, 2), (1, 1)), lhs_dilation=(2, 2), feature_group_count=4, dimension_numbers=("NHWC", "HWIO", "NHWC"))),
]


@pytest.mark.parametrize("x, w, settings", CASES)
def test_forward_and_gradients(x, w, settings):
    x, w = numbers(*x), numbers(*w)

    def loss(conv):
        return lambda x, w: jnp.sum(conv(x, w, **settings) ** 2)

    ours, theirs = (conv(x, w, **settings) for conv in (face.conv_general_dilated, lax.conv_general_dilated))
    assert ours.dtype == theirs.dtype and numpy.array_equal(ours, theirs)
    jitted = jax.jit(lambda x, w: face.conv_general_dilated(x, w, **settings))
    assert numpy.array_equal(jitted(x, w), theirs)
    for each in (jax.grad(loss(face.conv_general_dilated), (0, 1)), jax.jit(jax.grad(loss(face.conv_general_dilated), (0, 1)))):
        for a, b in zip(each(x, w), jax.grad(loss(lax.conv_general_dilated), (0, 1))(x, w)):
            assert a.dtype == b.dtype and numpy.array_equal(a, b)
    rows = face.report()
    assert len(rows) == 3 and all(row.kernel != "jax.lax" for row in rows), rows


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_types(dtype):
    x, w = numbers(2, 16, 8, 8, dtype=dtype), numbers(8, 16, 3, 3, dtype=dtype)
    for wanted in (None, jnp.float32):
        settings = dict(window_strides=(1, 1), padding="SAME", preferred_element_type=wanted)
        ours = jax.grad(lambda x, w: face.conv_general_dilated(x, w, **settings).astype("float32").sum(), (0, 1))(x, w)
        theirs = jax.grad(lambda x, w: lax.conv_general_dilated(x, w, **settings).astype("float32").sum(), (0, 1))(x, w)
        for a, b in zip(ours, theirs):
            assert a.dtype == b.dtype == dtype and numpy.array_equal(a.astype("float32"), b.astype("float32"))
    assert "jax.lax" not in {row.kernel for row in face.report() if row.platform == "cpu" and row.problem.startswith("fwd")}


def test_integers():
    x, w = numbers(2, 8, 8, 8, dtype="int8"), numbers(8, 8, 3, 3, dtype="int8")
    ours = face.conv_general_dilated(x, w, (1, 1), "SAME", preferred_element_type=jnp.int32)
    assert numpy.array_equal(ours, lax.conv_general_dilated(x, w, (1, 1), "SAME", preferred_element_type=jnp.int32))
    assert face.report()[0].kernel != "jax.lax"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_of_8_bits_overflow_as_jaxs_do(dtype):
    generator = numpy.random.default_rng(0)
    x, w = (jnp.asarray(generator.integers(0, 120, shape).astype(dtype)) for shape in ((2, 3, 8, 8), (4, 3, 3, 3)))
    ours = face.conv_general_dilated(x, w, (1, 1), "SAME")
    theirs = lax.conv_general_dilated(x, w, (1, 1), "SAME")
    assert ours.dtype == dtype and numpy.array_equal(ours, theirs) and "jax.lax" not in {row.kernel for row in face.report()}


def test_derivatives_of_derivatives():
    x, w = numbers(1, 4, 6, 6), numbers(3, 4, 3, 3)

    def curved(conv):
        inner = jax.grad(lambda x, w: jnp.sum(conv(x, w, (1, 1), "SAME") ** 3), (0, 1))
        return jax.grad(lambda x, w: sum(jnp.sum(each * each) for each in inner(x, w)) * 1e-6, (0, 1))

    for a, b in zip(curved(face.conv_general_dilated)(x, w), curved(lax.conv_general_dilated)(x, w)):
        assert numpy.allclose(a, b, rtol=1e-4, atol=1e-4 * float(abs(b).max()))
    assert all(row.kernel != "jax.lax" for row in face.report())


def test_vmap():
    x, w = numbers(3, 2, 4, 6, 6), numbers(3, 5, 4, 3, 3)
    for axes in ((0, 0), (0, None), (None, 0)):
        given = (x if axes[0] == 0 else x[0], w if axes[1] == 0 else w[0])
        ours, theirs = (
            jax.vmap(lambda x, w: conv(x, w, (1, 1), "SAME"), axes)(*given)
            for conv in (face.conv_general_dilated, lax.conv_general_dilated)
        )
        assert numpy.array_equal(ours, theirs)


@pytest.mark.parametrize(
    "x, w, settings, reason",
    [
        ((4, 8, 6, 6), (6, 8, 3, 3), dict(window_strides=(1, 1), padding="SAME", batch_group_count=2), "batch_group_count is 2"),
        ((2, 8, 6, 6), (6, 8, 3, 3), dict(window_strides=(2, 1), padding=((1, 1), (1, 1)), lhs_dilation=(1, 2)), "expected one of them"),
        ((2, 8, 6, 6), (6, 4, 3, 3), dict(window_strides=(1, 1), padding=((1, 1), (1, 1)), lhs_dilation=(2, 2), feature_group_count=2), "2 groups of several"),
        ((2, 8, 3, 3, 3, 3), (6, 8, 2, 2, 2, 2), dict(window_strides=(1,) * 4, padding="VALID"), "4 spatial axes"),
    ],
)
def test_what_is_not_taken_runs_by_jax_and_is_told(x, w, settings, reason):
    x, w = numbers(*x), numbers(*w)
    for function in (lambda conv: conv(x, w, **settings), lambda conv: jax.grad(lambda x: conv(x, w, **settings).sum())(x)):
        assert numpy.array_equal(function(face.conv_general_dilated), function(lax.conv_general_dilated))
    rows = face.report()
    assert {row.kernel for row in rows} == {"jax.lax"} and all(reason in row.note for row in rows)
    assert "left to jax.lax" in str(rows)


def test_bad_calls_are_refused_in_jax_words():
    x, w = numbers(1, 3, 8, 8), numbers(4, 2, 3, 3)
    for arguments in (((1, 1), "SAME"), ((1,), "SAME"), ((0, 0), "SAME")):
        with pytest.raises(Exception) as theirs:
            lax.conv_general_dilated(x, w, *arguments)
        with pytest.raises(type(theirs.value)) as ours:
            face.conv_general_dilated(x, w, *arguments)
        assert str(ours.value) == str(theirs.value)
    good = numbers(4, 3, 3, 3)
    for settings, sentence in (
        (dict(math="best"), "math is 'best'"),
        (dict(determinism="always"), "determinism is 'always'"),
        (dict(threads=-1), "threads is -1"),
    ):
        with pytest.raises(polyconv.InvalidArgument, match=sentence):
            face.conv_general_dilated(x, good, (1, 1), "SAME", **settings)
    assert not face.report()


def test_invariant():
    x, w = jax.random.normal(jax.random.PRNGKey(0), (8, 16, 12, 12)), jax.random.normal(jax.random.PRNGKey(1), (16, 16, 3, 3))

    def conv(x):
        return face.conv_general_dilated(x, w, (1, 1), "SAME", determinism="invariant", threads=1)

    assert numpy.array_equal(conv(x)[5:6], conv(x[5:6]))
    jax.grad(lambda w: face.conv_general_dilated(x, w, (1, 1), "SAME", determinism="invariant").sum())(w)
    assert "sum over the batch" in face.report()[-1].note


def test_foreign_calls_that_do_not_fit_are_refused():
    """What a program that was traced for another machine, or damaged, would ask."""
    x, w = numbers(1, 8, 8, 8), numbers(8, 8, 3, 3)
    attributes = dict(math=numpy.int32(0), determinism=numpy.int32(1), threads=numpy.int32(1))

    def call(token, scratch, shape=(1, 8, 6, 6)):
        results = (jax.ShapeDtypeStruct(shape, "float32"), jax.ShapeDtypeStruct((scratch,), "uint8"))
        return jax.ffi.ffi_call("polyconv_cpu", results)(x, w, token=token, **attributes)[0].block_until_ready()

    for arguments, sentence in (
        (("fwd:c8,k8,i8x8,f3x3", 0), "the scratch memory has 0 bytes"),
        (("fwd:c8,k8,i9x9,f3x3", 1 << 20), "input has 2048 bytes, expected 2592"),
        (("fwd:c8,k8,i8x8,f3x3", 1 << 20, (1, 8, 6, 5)), "output has 960 bytes, expected 1152"),
        (("fwd:nonsense", 1 << 20), "nonsense"),
    ):
        with pytest.raises(Exception, match=sentence):
            call(*arguments)
    assert numpy.array_equal(call("fwd:c8,k8,i8x8,f3x3", 1 << 20), lax.conv_general_dilated(x, w, (1, 1), "VALID"))


def test_threads():
    """Several Python threads, one compiled program."""
    import concurrent.futures

    x, w = numbers(4, 8, 16, 16), numbers(8, 8, 3, 3)
    step = jax.jit(lambda x: face.conv_general_dilated(x, w, (1, 1), "SAME"))
    wanted = [numpy.asarray(step(x * i)) for i in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for i, result in enumerate(pool.map(lambda i: [numpy.asarray(step(x * i)) for _ in range(20)], range(6))):
            assert all(numpy.array_equal(one, wanted[i]) for one in result)
