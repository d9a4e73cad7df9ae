"""JAX and CuPy on CUDA, where they are."""
# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import subprocess
import sys

import torch

import polyconv
from checks import Skip, check


def jax_on_cuda():
    """In a process of its own: JAX takes most of the GPU's memory for itself."""
    program = pathlib.Path(__file__).with_name("jax_program.py")
    environment = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=500, env=environment)
    if done.stdout.startswith("SKIP"):
        raise Skip(done.stdout[5:].strip()[:200])
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.strip()


def cupy_arrays():
    try:
        import cupy
    except ImportError:
        raise Skip("no CuPy") from None
    x = cupy.random.default_rng(0).standard_normal((4, 32, 28, 28), dtype=cupy.float32)
    w = cupy.random.default_rng(1).standard_normal((48, 32, 3, 3), dtype=cupy.float32)
    expected = polyconv.conv(cupy.asnumpy(x), cupy.asnumpy(w), padding=1)
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(20):
            x = x * 1.0
        y = polyconv.conv(x, w, padding=1)
        assert isinstance(y, cupy.ndarray)
        far = float(abs(cupy.asnumpy(y) - expected).max() / abs(expected).max())
    assert far < 1e-5, far
    picture = cupy.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=cupy.uint8)
    blurred = polyconv.filter(picture, cupy.full((3, 3), 1 / 9, dtype=cupy.float32))
    host = polyconv.filter(cupy.asnumpy(picture), torch.full((3, 3), 1 / 9).numpy())
    assert int(abs(cupy.asnumpy(blurred).astype(int) - host.astype(int)).max()) <= 1
    return f"CuPy {cupy.__version__}: differs from the CPU by {far:.1e}"


def run():
    check("JAX", jax_on_cuda)
    check("CuPy", cupy_arrays)
