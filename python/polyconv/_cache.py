"""What conv and its sisters keep between calls; the extension module keeps it (cache.cpp)."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

from . import _core
from ._values import MOST, whole


class CacheInfo(NamedTuple):
    """What conv and its sisters keep between calls."""

    hits: int
    misses: int
    entries: int
    bytes: int
    most_entries: int
    most_bytes: int


def cache_info():
    """Calls that found their plan and that did not, and what is kept."""
    return CacheInfo(*_core.cache_info())


def cache_clear():
    """Drops every plan that calls have left behind, with its memory."""
    _core.cache_clear()


def cache_limit(entries=256, bytes=1 << 30):
    """Bounds what is kept between calls: sorts of call, and bytes of their packed weights and workspaces."""
    _core.cache_limit(whole(entries, "entries", 1, MOST), whole(bytes, "bytes", 0, MOST))
