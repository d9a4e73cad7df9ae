"""What ran where: report(), and the numbers of the caches."""
# SPDX-License-Identifier: Apache-2.0

import sys
from typing import NamedTuple

from .. import _core
from ..errors import InvalidArgument
from . import _dispatch, _kept, _plans
from ._plans import Taken, module_of, state


class CacheInfo(NamedTuple):
    """Plans and packed weights that are kept, and the calls that went to PyTorch."""

    hits: int
    misses: int
    plans: int
    most_plans: int
    evicted: int
    packed_tensors: int
    packed_bytes: int
    times_packed: int
    fallen_forward: int
    fallen_backward: int


def cache_info():
    fallen = _dispatch.fallen()
    tensors, size = _kept.packed_of_all()
    return CacheInfo(
        state.hits + _core.torch_hits(),
        state.misses,
        len(state.plans),
        state.most_plans,
        state.evicted,
        tensors,
        size,
        state.packed + _core.torch_packed(),
        fallen["fwd"],
        fallen["bwd"],
    )


def cache_clear():
    """Drops plans, packed weights and counts. Call it where weights changed behind PyTorch's back: through .data, or in a CUDA
    graph that trains. What graphs of inference read stays where it is, as long as the weights it was made from, and is made anew
    by the next run outside."""
    with state.lock:
        state.plans.clear()
        _core.torch_clear()
        state.forms.clear()
        _kept.distrust_graphs()
    _dispatch.reset_counts()


def cache_limit(plans=1024, packed_bytes=None):
    """Bounds what is kept: plans, of which the one that was not used for longest goes, and bytes of packed and cast weights, by
    default no bound. These live as long as the tensors that they were made from; what would go beyond the bound is made anew in
    each call, as PyTorch's autocast casts weights anew in each context: slower, and without the memory."""
    for name, value in (("plans", plans), ("packed_bytes", packed_bytes)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < (name == "plans")):
            raise InvalidArgument(f"{name} is {value!r}, expected a whole number, at least {int(name == 'plans')}")
    with state.lock:
        state.most_plans = plans
        state.most_kept_bytes = sys.maxsize if packed_bytes is None else packed_bytes
        _plans.drop_plans()
        if state.kept_bytes > state.most_kept_bytes:
            state.forms.clear()


class Row(NamedTuple):
    """One sort of call."""

    layer: str
    problem: str
    kernel: str
    calls: int
    estimate_us: float
    note: str


class Report(list):
    """Rows of report(): a list for programs, a table for people."""

    def __str__(self):
        head = Row("layer", "problem", "kernel", "calls", "est. us", "note")
        lines = [head] + [row._replace(estimate_us=f"{row.estimate_us:.1f}" if row.estimate_us else "") for row in self]
        widths = [max(len(str(line[i])) for line in lines) for i in range(5)]
        text = ["  ".join(str(line[i]).ljust(widths[i]) for i in range(5)) + "  " + line.note for line in lines]
        taken = sum(row.calls for row in self if row.kernel != "PyTorch")
        left = sum(row.calls for row in self if row.kernel == "PyTorch")
        text.append(f"{taken} calls on polyconv, {left} left to PyTorch")
        return "\n".join(line.rstrip() for line in text)

    __repr__ = __str__


def report(model=None):
    """Every sort of call since the last cache_clear(): layer (by name, where the model is given), problem, kernel, calls,
    estimated time of one, and why a call was left to PyTorch or may depend on the batch; of a model that fuse() made, what
    became one plan, and what was not fused and why."""
    names = {} if model is None else {id(one): name for name, one in module_of(model).named_parameters()}
    rows = []
    for decided in list(state.plans.values()):
        if isinstance(decided, Taken):
            known = {
                names[id(w)].rsplit(".", 1)[0]
                for w in [reference() for reference in list(decided.layers.values())]
                if w is not None and id(w) in names
            }
            notes = [f"fused: {parts}" for parts in decided.parts if " + " in parts]
            notes += [f"not batch-invariant: {decided.not_invariant}"] if decided.not_invariant else []
            rows.append(
                Row(
                    ", ".join(sorted(known)),
                    decided.problem.token(),
                    decided.plan.kernel,
                    decided.calls,
                    decided.plan.estimate_us,
                    "; ".join(notes),
                )
            )
        else:
            rows.append(Row("", f"{decided.direction}: {decided.what}", "PyTorch", decided.calls, 0.0, decided.reason))
    for layer, what, reason in getattr(model, "polyconv_left", ()):
        rows.append(Row(layer, f"fuse: {what}", "not fused", 0, 0.0, reason))
    return Report(rows)
