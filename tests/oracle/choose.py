# choose.py - case `index` of a seed: what is asked, under which options, by which kernel.
# SPDX-License-Identifier: Apache-2.0
import random

import binding as b
import data
from case import Case
from draw import Draw


def choose(library, seed, index, kernel="", edges=8):
    """Any part of a run can be had again: the case depends on nothing else. `kernel`: a glob, or "" for the default choice
    and kernels that accept, by turns. `edges`: percent of problems with sizes at the ends of 64 bits."""
    source = random.Random(f"polyconv:{seed}:{index}")
    draw = Draw(source, library.knows)
    if not kernel and draw.chance(edges):
        return Case([draw.edge()], {"edge": 1, "seed": source.getrandbits(32), "ends": source.getrandbits(16)})
    layers = draw.chain() if draw.chance(10) else [draw.layer()]
    mode = draw.one_of(data.modes(layers))
    case = Case(layers, {"mode": mode, "seed": source.getrandbits(32), "ends": source.getrandbits(16),
                         "threads": draw.one_of([1, 1, 1, 1, 2, 3]), "checked": int(draw.chance(10)),
                         "convolve": int(draw.chance(5)), "save": _save(draw, layers)})
    if mode == "special" and case["save"] == "argmax":  # which of several NaN, where kernels may differ in these
        case = case.altered(save="none")
    if draw.chance(15):
        case = case.altered(math=draw.one_of(b.MATHS[1:]))
    if draw.chance(12):
        case = case.altered(determinism=_determinism(draw, layers[0]))
    if len(layers) == 1 and draw.chance(10):
        case = case.altered(sibling=draw.between(1, 4))
    if kernel:
        return case.altered(kernel=kernel)
    return _forced(library, draw, case) if draw.chance(50) else case


def _save(draw, layers):
    pools = any(layer.pool and layer.pool.kind == "max" for layer in layers)
    if layers[0].direction == b.FORWARD:
        return draw.one_of(["pre", "argmax"] if pools else ["pre"]) if draw.chance(15) else "none"
    if layers[0].activation != "none":
        return "pre"
    return draw.one_of(["pre", "argmax"]) if pools else "none"


def _determinism(draw, layer):
    levels = [0, 2] if layer.direction != b.BACKWARD_WEIGHTS else [0]
    return draw.one_of(levels + [3, 3] if layer.row == "quantised" else levels)


def _forced(library, draw, case):
    """One of the kernels that accept, whatever they estimate; of chains a grouping."""
    if len(case.layers) > 1:
        return case.altered(grouping=draw.one_of(["none", str(len(case.layers))]))
    options = library.options(math=b.MATHS.index(case["math"]), determinism=case["determinism"],
                              threads=case["threads"], save=b.SAVES.index(case["save"]), fallback=2)
    try:
        names = library.candidates([library.parse(layer.token()) for layer in case.layers], options)
    except b.Failed:
        return case
    names = [name.split(" + ")[0] for name in names]
    return case.altered(kernel=draw.one_of(names)) if names else case
