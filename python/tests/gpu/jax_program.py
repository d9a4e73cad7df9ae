"""polyconv.jax on CUDA beside jax.lax: types, layouts, groups, gradients, and a chain of steps. Prints one line, which begins with SKIP
where there is no JAX with a GPU."""
# SPDX-License-Identifier: Apache-2.0

import sys

LAYOUTS = (
    (("NCHW", "OIHW", "NCHW"), (4, 32, 28, 28), (48, 32, 3, 3), 1),
    (("NHWC", "HWIO", "NHWC"), (4, 28, 28, 32), (3, 3, 32, 48), 1),
    (("NHWC", "HWIO", "NHWC"), (4, 28, 28, 32), (3, 3, 1, 32), 32),
    (("NHWC", "OHWI", "NHWC"), (4, 28, 28, 64), (128, 3, 3, 64), 1),  # weights as kernels read them raw
)
TYPES = (("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 3e-2))


def as_f32(array):
    return array.astype("float32")


def normal(seed, shape):
    import jax

    return jax.random.normal(jax.random.PRNGKey(seed), shape)


def far_of(layout, shape, kernel, groups, dtype):
    """The largest difference of a result or a gradient, of the size of its largest value."""
    import jax

    import polyconv.jax as face

    x, w = normal(0, shape).astype(dtype), (normal(1, kernel) / 17).astype(dtype)
    settings = dict(
        window_strides=(1, 1), padding="SAME", dimension_numbers=layout, feature_group_count=groups, precision="highest"
    )

    def ours(x, w):
        return face.conv_general_dilated(x, w, **settings)

    def exact(x, w):
        return jax.lax.conv_general_dilated(as_f32(x), as_f32(w), **settings)

    g = normal(2, exact(x, w).shape).astype(dtype)
    y, back = jax.vjp(jax.jit(ours), x, w)
    y2, back2 = jax.vjp(exact, x, w)
    pairs = zip((y, *back(g)), (y2, *back2(as_f32(g))))
    return max(float(abs(as_f32(a) - as_f32(b)).max() / abs(as_f32(b)).max()) for a, b in pairs)


def chain(conv):
    """Eight steps without anything between them: each must wait for the one before."""
    import jax

    x, w = normal(0, (8, 64, 56, 56)), normal(1, (64, 64, 3, 3)) / 24

    def run(x):
        for _ in range(8):
            x = jax.numpy.tanh(conv(x * 1.5, w, (1, 1), "SAME", precision="highest"))
        return x

    return jax.jit(run)(x)


def main():
    try:
        import jax

        assert jax.default_backend() == "gpu", jax.devices()
    except Exception as error:
        print("SKIP", error)
        return
    import polyconv.jax as face

    worst = 0
    for layout, shape, kernel, groups in LAYOUTS:
        for dtype, limit in TYPES:
            far = far_of(layout, shape, kernel, groups, dtype)
            assert far < limit * 4, (layout, dtype, far)
            worst = max(worst, far / limit)
    far = float(abs(chain(face.conv_general_dilated) - chain(jax.lax.conv_general_dilated)).max())
    assert far < 1e-3, far
    rows = [row for row in face.report() if row.platform == "cuda"]
    left = [row for row in rows if row.kernel == "jax.lax"]
    assert len(left) < len(rows) / 2, left  # without libpolyconv_xla.so all of them are: the package was built without jaxlib
    print(
        f"jax {jax.__version__}: worst {worst:.2f} of its limit, a chain differs by {far:.1e}; {len(rows)} sorts of call, "
        f"{len(left)} left to jax.lax",
        *[row.note[:160] for row in left],
        sep="; ",
    )


if __name__ == "__main__":
    sys.exit(main())
