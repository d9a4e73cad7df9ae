"""PyTorch's convolutions on polyconv, models unchanged:

    import polyconv.torch
    polyconv.torch.enable()              from now on; or: with polyconv.torch.enable(): ...
    polyconv.torch.patch(model)          one model alone
    fast = polyconv.torch.fuse(model)    of an eval model: conv, batch norm, residual and activation as one plan
    print(polyconv.torch.report(model))  what ran where, and what was left to PyTorch and why
"""
# SPDX-License-Identifier: Apache-2.0

from ._dispatch import disable, enable, is_enabled
from ._fuse import fuse
from ._patch import patch, unpatch
from ._report import CacheInfo, cache_clear, cache_info, cache_limit, report

__all__ = [
    "CacheInfo",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "disable",
    "enable",
    "fuse",
    "is_enabled",
    "patch",
    "report",
    "unpatch",
]
