"""What was traced where: report()."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

from . import _call, _conv


class Row(NamedTuple):
    """One sort of call on one platform; a program that is compiled once and runs often counts once."""

    platform: str
    problem: str
    kernel: str
    traces: int
    note: str


class Report(list):
    """Rows of report(): a list for programs, a table for people."""

    def __str__(self):
        lines = [Row("platform", "problem", "kernel", "traces", "note"), *self]
        widths = [max(len(str(line[i])) for line in lines) for i in range(4)]
        text = ["  ".join(str(line[i]).ljust(widths[i]) for i in range(4)) + "  " + line.note for line in lines]
        left = sum(row.traces for row in self if row.kernel == "jax.lax")
        text.append(f"{sum(row.traces for row in self) - left} traces to polyconv, {left} left to jax.lax")
        return "\n".join(line.rstrip() for line in text)

    __repr__ = __str__


def report():
    """Every sort of convolution that was traced since the last cache_clear(): platform, problem, kernel, how often, and why a
    call was left to jax.lax."""
    rows = []
    for direction, platform, decision, traces, call in _call.decided():
        if isinstance(decision, _call.Refused):
            what = f"{_call.DIRECTIONS[direction]}: {call.lhs_shape} by {call.rhs_shape}, {call.types[0]}"
            rows.append(Row(platform, what, "jax.lax", traces, decision.reason))
        else:
            rows.append(Row(platform, decision.token, decision.kernel, traces, ""))
    return Report(rows)


def cache_clear():
    """Forgets what was decided and traced. Programs that are compiled stay as they are."""
    _call.forget()
    _conv._run.clear_cache()
