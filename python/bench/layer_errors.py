"""Each convolution of a network, forward, backward and fused, beside f64 and beside PyTorch's own kernels, on the arguments that it
really had: whole_models.py and tests/gpu say by it which layer is wrong where a network is."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import copy
from typing import NamedTuple

import torch

from polyconv.torch import _autocast, _dispatch, _fused, _run
from polyconv.torch._plans import Refused, state

BOUND = 4  # times PyTorch's error, or what the type can tell apart, beyond which a layer counts as wrong


class Row(NamedTuple):
    """One result: its error is `ratio` times PyTorch's, or of what its type can tell apart where that is more."""

    ratio: float
    ours: float
    theirs: float
    what: str
    layer: str = ""

    def __str__(self):
        return f"{self.layer or 'a layer'}: error {self.ours:.1e}, PyTorch's {self.theirs:.1e}, {self.ratio:.1f} times it, bound {BOUND}: {self.what}"


def _row(ours, theirs, exact, what, layer):
    largest = exact.abs().max().clamp(min=1e-30)

    def far(result):
        return float((result.double() - exact).abs().max() / largest) if bool(result.isfinite().all()) else float("inf")

    type_ = torch.finfo(ours.dtype)
    least = max(2 * type_.eps, type_.smallest_normal * type_.eps / float(largest))
    return Row(far(ours) / max(far(theirs), least), far(ours), far(theirs), what, layer)


def _ran(calls):
    """Token and kernel of each plan that ran since its calls were counted so."""
    taken = [each for each in state.plans.values() if each.plan is not None and each.calls != calls.get(id(each), 0)]
    return {each.direction: f"{each.problem.token()} by {each.plan.kernel}" for each in taken}


def _calls():
    return {id(each): each.calls for each in state.plans.values()}


@contextlib.contextmanager
def checked_layers(net=None):
    """While it lasts every call that polyconv takes is computed three times; gives the list to which the rows go. `net` has the
    layers' names."""
    rows, fused = [], _fused.forward
    forward, backward = (ours or theirs for ours, theirs in zip(_dispatch.watchers(), (_run.forward_itself, _run.backward_itself)))
    names = {} if net is None else {id(each): name.rpartition(".")[0] for name, each in net.named_parameters()}
    names.update({} if net is None else {id(each): name for name, each in net.named_modules()})

    def both_forward(x, w, bias, *settings, **more):
        calls = _calls()
        result = forward(x, w, bias, *settings, **more)
        if type(result) is not Refused:
            name, x = names.get(id(w), ""), x.to(result.dtype)
            w, bias = w.to(x.dtype), None if bias is None else bias.to(x.dtype)
            exact = _dispatch.original_forward(x.double(), w.double(), None if bias is None else bias.double(), *settings)
            theirs = _dispatch.original_forward(x, w, bias, *settings)
            rows.append(_row(result, theirs, exact, ", ".join(_ran(calls).values()), name))
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
                    rows.append(_row(*three, f"{what}: {ran.get(direction, 'a sum of PyTorch')}", names.get(id(w), "")))
        return results

    def both_fused(layer, x, residual):
        """PyTorch's error is that of its operators one after the other."""
        calls = _calls()
        result = fused(layer, x, residual)
        if type(result) is not Refused:
            theirs = layer.one_by_one(x, residual)
            x, residual = x.to(result.dtype), residual if residual is None else residual.double()
            with torch.autocast(x.device.type, enabled=False):
                exact = _in_double(layer).one_by_one(x.double(), residual)
            rows.append(_row(result, theirs, exact, ", ".join(_ran(calls).values()), names.get(id(layer), "")))
        return result

    _fused.forward = both_fused
    try:
        with _dispatch.watched(both_forward, both_backward):
            yield rows
    finally:
        _fused.forward = fused


def _in_double(layer):
    """A fused layer with the weights that autocast gives it, in double."""
    exact = copy.deepcopy(layer)
    dtype = _autocast.type_of(layer.weight)
    for each in exact.parameters():
        each.data = (each.data if dtype is None else each.data.to(dtype)).double()
    for name, each in list(exact.named_buffers()):
        setattr(exact, name, each.double())
    return exact


def told(rows, most=5):
    """The worst layers, a line each."""
    worst = sorted(rows, key=lambda row: row.ratio, reverse=True)
    beyond = sum(row.ratio > BOUND for row in rows)
    return [f"{beyond} of {len(rows)} results beyond the bound; the worst:", *[f"  {row}" for row in worst[:most]]]
