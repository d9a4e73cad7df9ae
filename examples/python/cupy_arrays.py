#!/usr/bin/env python3
"""polyconv on arrays of CuPy: read and written where they are, on the stream that CuPy works on.

    python3 examples/python/cupy_arrays.py

Needs a GPU, CuPy and polyconv's CUDA plug-ins (pip install polyconv-cuda13)."""
# SPDX-License-Identifier: Apache-2.0

import sys

import polyconv


def main():
    try:
        import cupy
    except ImportError:
        sys.exit("this example needs CuPy: pip install cupy-cuda13x")
    if not any(device.name.startswith("cuda") for device in polyconv.devices()):
        reasons = [f"{one.name}: {one.reason}" for one in polyconv.backends() if not one.available]
        sys.exit("polyconv has no CUDA device here: " + ("; ".join(reasons) or "pip install polyconv-cuda13"))

    # A blurred picture, H x W x 3 bytes, without a copy to the host in between.
    picture = cupy.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=cupy.uint8)
    blurred = polyconv.filter(picture, cupy.full((9, 9), 1 / 81, dtype=cupy.float32))
    print(type(blurred).__module__, blurred.shape, blurred.dtype, "mean", float(blurred.mean()))

    # A layer on a stream of CuPy's own: polyconv enqueues its work there, behind what CuPy has enqueued.
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.random.default_rng(1).standard_normal((4, 64, 56, 56), dtype=cupy.float32)
        w = cupy.random.default_rng(2).standard_normal((64, 64, 3, 3), dtype=cupy.float32) / 24
        y = polyconv.conv(x, w, padding=1, activation="relu")
        total = y.sum()  # CuPy's, on the same stream
    stream.synchronize()
    print(type(y).__module__, y.shape, y.dtype, "sum", float(total))

    # The same numbers on the host.
    expected = polyconv.conv(cupy.asnumpy(x), cupy.asnumpy(w), padding=1, activation="relu")
    print("differs from the CPU by", float(abs(cupy.asnumpy(y) - expected).max()))


if __name__ == "__main__":
    main()
