"""Each convolution of a network, forward and backward, beside f64 and beside PyTorch's own kernels, on the arguments that it really had."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
from typing import NamedTuple

import torch

from polyconv.torch import _dispatch, _run
from polyconv.torch._plans import Refused, state


class Row(NamedTuple):
    """One result: its error is `ratio` times PyTorch's, or of what its type can tell apart where that is more."""

    ratio: float
    ours: float
    theirs: float
    what: str

    def __str__(self):
        return f"{self.ratio:.1f} times PyTorch's ({self.ours:.1e}, {self.theirs:.1e}) in {self.what}"


def _row(ours, theirs, exact, what):
    largest = exact.abs().max().clamp(min=1e-30)

    def far(result):
        return float((result.double() - exact).abs().max() / largest) if bool(result.isfinite().all()) else float("inf")

    type_ = torch.finfo(ours.dtype)
    least = max(2 * type_.eps, type_.smallest_normal * type_.eps / float(largest))
    return Row(far(ours) / max(far(theirs), least), far(ours), far(theirs), what)


def _ran(calls):
    """Token and kernel of each plan that ran since its calls were counted so."""
    taken = [each for each in state.plans.values() if each.plan is not None and each.calls != calls.get(id(each), 0)]
    return {each.direction: f"{each.problem.token()} by {each.plan.kernel}" for each in taken}


def _calls():
    return {id(each): each.calls for each in state.plans.values()}


@contextlib.contextmanager
def checked_layers():
    """While it lasts every call that polyconv takes is computed three times; gives the list to which the rows go."""
    rows, forward, backward = [], _run.forward, _run.backward

    def both_forward(x, w, bias, *settings, **more):
        calls = _calls()
        result = forward(x, w, bias, *settings, **more)
        if type(result) is not Refused:
            w, bias = w.to(x.dtype), None if bias is None else bias.to(x.dtype)
            exact = _dispatch.original_forward(x.double(), w.double(), None if bias is None else bias.double(), *settings)
            theirs = _dispatch.original_forward(x, w, bias, *settings)
            rows.append(_row(result, theirs, exact, ", ".join(_ran(calls).values())))
        return result

    def both_backward(grad, x, w, *settings):
        calls = _calls()
        results = backward(grad, x, w, *settings)
        if type(results) is not Refused:
            ran = _ran(calls)
            exact = _dispatch.original_backward(grad.double(), x.double(), w.double(), *settings)
            theirs = _dispatch.original_backward(grad, x, w, *settings)
            for what, direction, *three in zip(("data", "weights", "bias"), ("bwd_d", "bwd_w", "bwd_w"), results, theirs, exact):
                if three[0] is not None:
                    rows.append(_row(*three, f"{what}: {ran.get(direction, 'a sum of PyTorch')}"))
        return results

    _run.forward, _run.backward = both_forward, both_backward
    try:
        yield rows
    finally:
        _run.forward, _run.backward = forward, backward
