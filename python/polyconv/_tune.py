"""tune_layers() and tune_merge(): times that are kept for later plans, of this and other processes."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

from . import _core
from ._values import MOST, whole
from .objects import options_by_number, problems_of


class Tuned(NamedTuple):
    """Where tune_layers is: one of a problem's candidates was timed, or (finished) the problem is done."""

    problem: int
    finished: bool
    token: str
    kernel: str
    reason: str
    us: float
    timed: int
    known: int
    elapsed_ms: float
    left_ms: float
    unkept: int


def tune_layers(problems, budget_ms=0, device="cpu", progress=None, **options):
    """Times the kernels of many single layers and keeps the times in the tuning database, from which later plans choose.
    `budget_ms` is for all of them, 0 for no limit; `progress` is called with a Tuned and ends the tuning by returning False.
    Returns a Tuned for each problem that is done."""
    tell = None if progress is None else lambda now: progress(Tuned(*now))
    done = _core.tune(device, problems_of(list(problems)), options_by_number(options), whole(budget_ms, "budget_ms", 0, MOST), tell)
    return [Tuned(*one) for one in done]


def tune_merge(path):
    """Adds what another tuning file holds to the user's own; the number of lines that came."""
    return _core.tune_merge(path)
