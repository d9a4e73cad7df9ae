# bounds.py - a number and how far off it may be: |y - r| <= u_out |r| + c sqrt(K) u_acc sum |x| |w| (docs/architecture.md,
# Numbers), carried from step to step of an epilogue and from layer to layer of a chain.
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass

import numpy as np

import elements


# c = 2 is 3.4 standard deviations of K roundings of the whole sum, as where one product is most of it. Among billions of
# numbers some lie beyond that: six standard deviations are allowed.
MANY = 1.75


@dataclass
class Tolerance:
    """factor c and unit u_acc; 0: exact. `mixes`: sums and differences of weights are multiplied by those of inputs, so
    that weights whose taps meet nothing but padding add their share of roundings too."""
    factor: float
    unit: float
    mixes: bool = False

    @property
    def exact(self):
        return self.factor == 0

    def gamma(self, products):
        return MANY * self.factor * np.sqrt(products) * self.unit


EXACT = Tolerance(0, 0)


def of_plan(layer, info, exact):
    """What the math mode that a plan entered promises."""
    if exact and not info.transform:
        return EXACT
    unit = 2.0**-53 if layer.types[0] == "f64" else 2.0**-24
    math = info.math.decode()
    if math == "tf32":
        return Tolerance(2, 2.0**-11)
    if info.transform:
        return Tolerance(32, unit, mixes=True)
    return {"fp32_emulated": Tolerance(8, unit), "fast": Tolerance(2, 2.0**-8)}.get(math, Tolerance(2, unit))


@dataclass
class Interval:
    """Values and, element by element, how far off each may be (None: not at all)."""
    value: np.ndarray
    bound: np.ndarray = None

    def off(self):
        return np.zeros(self.value.shape) if self.bound is None else self.bound

    def certain(self):
        return self.bound is None or not self.bound.any()


def stored(interval, name):
    """The interval once it has been stored as a float type: exact numbers are rounded once, others grow."""
    if interval.bound is None:
        return Interval(elements.rounded(interval.value, name))
    size = np.abs(interval.value) + interval.bound
    return Interval(interval.value, interval.bound + elements.ROUNDOFF[name] * size + elements.SMALLEST[name])


def outside(found, expected, name):
    """Which elements of what was found lie outside; `expected` as stored() or, of integers, as quantised."""
    value, off = expected.value, expected.off()
    with np.errstate(invalid="ignore", over="ignore"):
        good = (found == value) | (np.abs(found - value) <= off) | (np.isnan(found) & np.isnan(value))
        if not elements.is_integer(name):
            overflows = np.isinf(found) & (np.sign(found) == np.sign(value))
            good |= overflows & (np.abs(value) + off >= elements.LARGEST[name])
    return ~good
