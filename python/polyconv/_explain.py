"""explain(): every kernel that was asked about a problem, and its answer; backends() and devices(): who was asked."""
# SPDX-License-Identifier: Apache-2.0

import html
from typing import NamedTuple

from . import _core
from .objects import options_by_number, problems_of


class Candidate(NamedTuple):
    """A kernel that was asked, and its answer."""

    kernel: str
    accepted: bool
    chosen: bool
    fallback: bool
    estimate_us: float
    workspace_bytes: int
    reason: str
    grouping: str
    note: str
    measured: bool
    measured_on: str  # the day, "2026-11-28"; "" of an estimate
    measured_elsewhere: bool  # then: on another machine of this kind, as what ships was


class Explanation:
    """Why a plan is what it is: str() is the library's text, a notebook shows a table, and candidates has every kernel."""

    def __init__(self, text, candidates):
        self.text = text
        self.candidates = [Candidate(*one) for one in candidates]

    @property
    def chosen(self):
        """The candidate that a plan takes; None where nobody takes the problem."""
        return next((one for one in self.candidates if one.chosen), None)

    def __str__(self):
        return self.text

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        rows = []
        for one in self.candidates:
            style = ' style="font-weight:bold"' if one.chosen else "" if one.accepted else ' style="color:gray"'
            time = f"{one.estimate_us:.1f}" if one.accepted else ""
            memory = f"{one.workspace_bytes:,}" if one.accepted else ""
            rows.append(
                f"<tr{style}><td>{html.escape(one.kernel)}</td><td>{'chosen' if one.chosen else ''}</td><td>{time}</td>"
                f"<td>{memory}</td><td>{html.escape(one.reason or one.note)}</td></tr>"
            )
        head = "<tr><th>kernel</th><th></th><th>estimate, µs</th><th>workspace, bytes</th><th>reason</th></tr>"
        return f"<table>{head}{''.join(rows)}</table>"


def explain(problem, device="cpu", **options):
    """Asks every kernel of every backend about a problem (or chain) and keeps every answer."""
    return Explanation(*_core.explain(device, problems_of(problem), options_by_number(options)))


class Backend(NamedTuple):
    """A backend that was found, and why it can't serve where it can't."""

    name: str
    version: str
    path: str
    device_kind: str
    reason: str
    available: bool
    kernels: tuple


class Device(NamedTuple):
    """Where arrays can be."""

    name: str
    model: str
    description: str
    memory_bytes: int
    compute_units: int
    compute_capability: int


def backends():
    """Every backend that was found, in order of name."""
    return [Backend(*one) for one in _core.backends()]


def devices():
    """Every device, the CPU first."""
    return [Device(*one) for one in _core.devices()]
