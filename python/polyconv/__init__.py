"""polyconv: convolution on whatever the machine has.

    import numpy, polyconv
    y = polyconv.conv(x, w, padding=1)                          arrays of NumPy, PyTorch, JAX, CuPy; CPU or CUDA
    polyconv.filter(photograph, numpy.ones((7, 7)) / 49)        pictures, u8, u16 or f32
    print(polyconv.explain('fwd:c64,k64,i56x56,f3x3,p1'))       which kernel, and why

    import polyconv.torch
    polyconv.torch.enable()                                     PyTorch's convolutions, unchanged models
"""
# SPDX-License-Identifier: Apache-2.0

from . import _core
from ._api import conv, conv_transpose, filter, grad_input, grad_weight
from ._cache import CacheInfo, cache_clear, cache_info, cache_limit
from ._explain import Backend, Candidate, Device, Explanation, backends, devices, explain
from ._settings import Pool
from .errors import (
    DeviceError,
    Error,
    FileError,
    InternalError,
    InvalidArgument,
    OutOfMemory,
    Unavailable,
    Unsupported,
)
from ._tune import Tuned, tune_layers, tune_merge
from .objects import Chain, Plan, Problem, TensorInfo, Weights, tune

__version__ = _core.version()
__all__ = [
    "Backend",
    "CacheInfo",
    "Candidate",
    "Chain",
    "Device",
    "DeviceError",
    "Error",
    "Explanation",
    "FileError",
    "InternalError",
    "InvalidArgument",
    "OutOfMemory",
    "Plan",
    "Pool",
    "Problem",
    "TensorInfo",
    "Tuned",
    "Unavailable",
    "Unsupported",
    "Weights",
    "backends",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "conv",
    "conv_transpose",
    "devices",
    "explain",
    "filter",
    "grad_input",
    "grad_weight",
    "tune",
    "tune_layers",
    "tune_merge",
]


def _load_plugins():
    """Backends of sister packages, polyconv-cuda13 being the only one so far: the library searches beside itself alone."""
    import importlib.util
    import pathlib

    found = importlib.util.find_spec("polyconv_cuda13")
    if found is None or not found.submodule_search_locations:
        return
    for folder in found.submodule_search_locations:
        for path in sorted(pathlib.Path(folder, "backends").glob("libpolyconv_*.so")):
            try:
                _core.load_backend(str(path))
            except Error:
                pass  # listed with its reason by backends(): no driver, say


_load_plugins()
del _load_plugins
