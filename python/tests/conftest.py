"""What the tests share. They run against whatever `import polyconv` finds: an installed wheel, or the build's folder."""
# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import sys

import numpy
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
for name in ("POLYCONV_KERNEL", "POLYCONV_LOG", "POLYCONV_BACKEND_PATH", "POLYCONV_BACKEND_SKIP", "OMP_NUM_THREADS"):
    os.environ.pop(name, None)  # results do not depend on the caller's settings


@pytest.fixture
def draw():
    """Small whole numbers as an array: every sum of their products is exact in every float type that is tested."""
    generator = numpy.random.default_rng(7)

    def drawn(*shape, dtype="float32", low=-2, high=3):
        return generator.integers(low, high, shape).astype(dtype)

    return drawn
