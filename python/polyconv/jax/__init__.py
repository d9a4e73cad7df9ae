"""JAX's convolution on polyconv, under jit and under grad:

    import polyconv.jax
    y = polyconv.jax.conv_general_dilated(x, w, (1, 1), "SAME")     arguments of jax.lax.conv_general_dilated
    print(polyconv.jax.report())                                    what ran where, and what was left to JAX and why
"""
# SPDX-License-Identifier: Apache-2.0

from ._conv import conv_general_dilated
from ._report import cache_clear, report

__all__ = ["cache_clear", "conv_general_dilated", "report"]
