# special.py - NaN and Inf, counted instead of computed: how many products of a sum are NaN, Inf and -Inf decides what it
# is. Products with padding are left out; where one of them may be 0 x Inf, NaN is right too (polyconv.h beside
# POLYCONV_PAD_*).
# SPDX-License-Identifier: Apache-2.0
import numpy as np

KINDS = ("nan", "+inf", "-inf", "zero", "positive", "negative")


def kinds(v):
    with np.errstate(invalid="ignore"):
        return {"nan": np.isnan(v), "+inf": v == np.inf, "-inf": v == -np.inf, "zero": v == 0,
                "positive": (v > 0) & np.isfinite(v), "negative": (v < 0) & np.isfinite(v)}


def _product(a, b):
    """The kind of a product of kinds, where it is not finite."""
    if "nan" in (a, b):
        return "nan"
    if "inf" not in a + b:
        return None
    if "zero" in (a, b):
        return "nan"
    positive = (a in ("+inf", "positive")) == (b in ("+inf", "positive"))
    return "+inf" if positive else "-inf"


def sums(operation, first, second):
    """What operation(first, second), a sum of products, is where a product is not finite; finite numbers elsewhere are
    those of the finite factors. `operation` must leave padding out where it is given zeros."""
    a, b = kinds(first), kinds(second)
    value = operation(np.where(np.isfinite(first), first, 0.0), np.where(np.isfinite(second), second, 0.0))
    counts = {"nan": np.zeros(value.shape), "+inf": np.zeros(value.shape), "-inf": np.zeros(value.shape)}
    for x in KINDS:
        for y in KINDS:
            kind = _product(x, y)
            if kind is not None and a[x].any() and b[y].any():
                counts[kind] += operation(a[x].astype(np.float64), b[y].astype(np.float64))
    nan = (counts["nan"] > 0.5) | ((counts["+inf"] > 0.5) & (counts["-inf"] > 0.5))
    value = np.where(counts["+inf"] > 0.5, np.inf, np.where(counts["-inf"] > 0.5, -np.inf, value))
    return np.where(nan, np.nan, value)
