"""enable() and disable(): PyTorch's convolution operators go to polyconv, and what it does not take goes on to PyTorch's
own kernels."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import threading
import warnings

import torch

from .. import _core
from .._values import flag
from ..errors import InvalidArgument, Unsupported
from ..names import MATH
from . import _autocast, _native
from ._plans import state

_aten = torch.ops.aten
_backward = _aten.convolution_backward.default
_lock = threading.Lock()
_library = None
_fallen = {"fwd": 0, "bwd": 0}
_watched = {"on_forward": None, "on_backward": None}


def original_forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """What aten::convolution does in PyTorch: aten::_convolution, with the process's switches."""
    cudnn = torch.backends.cudnn
    allow_tf32 = torch._C._get_cudnn_allow_tf32()
    return _aten._convolution.default(
        x,
        w,
        bias,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        cudnn.benchmark,
        cudnn.deterministic,
        cudnn.enabled,
        allow_tf32,
    )


def original_backward(*arguments):
    """PyTorch's own aten::convolution_backward. It is one kernel for all backends, so that the table entry of a backend
    that nobody has registered for leads to it past our own."""
    if not hasattr(_backward, "redispatch"):
        raise Unsupported(
            "this gradient is PyTorch's to compute (see polyconv.torch.report()), and PyTorch "
            f"{torch.__version__} has no way past an override: expected 2.0 or newer, or polyconv.torch.disable()"
        )
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse3)
    return _backward.redispatch(keys, *arguments)


def _left(*arguments):
    """A forward call that polyconv refused."""
    fell("fwd")
    return original_forward(*arguments)


def _left_backward(*arguments):
    """A gradient that polyconv refused."""
    fell("bwd")
    return original_backward(*arguments)


def _tell(deterministic, math):
    """Sets what enable() was told. Plans depend on it, and what finds them knows it as a number."""
    state.deterministic, state.math = deterministic, math
    with state.lock:
        number = state.modes.setdefault((deterministic, math), len(state.modes))
    _core.torch_hand_over({"mode": number})


def watchers():
    """What watched() was given; None where nobody watches."""
    return _watched["on_forward"], _watched["on_backward"]


@contextlib.contextmanager
def watched(forward, backward):
    """While it lasts, these take the calls that _run.forward and _run.backward would."""
    before = _watched.copy()
    _watched.update(on_forward=forward, on_backward=backward)
    _core.torch_hand_over(_watched)
    try:
        yield
    finally:
        _watched.update(before)
        _core.torch_hand_over(_watched)


class Enabled:
    """What enable() gives back: a context manager, for who wants it for a while."""

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        on, deterministic, math = self._before
        _tell(deterministic, math)
        if not on:
            disable()


def _keys():
    keys = ["CPU"]
    if torch.cuda.is_available() and any(device[0].startswith("cuda") for device in _core.devices()):
        keys.append("CUDA")
        _core.torch_hand_over({"several_devices": torch.cuda.device_count() > 1})
    return keys


def enable(deterministic=False, math=None):
    """From now on PyTorch's convolutions run on polyconv: forward, backward, every dimension and memory format, on the
    CPU, and on CUDA where polyconv has its plug-ins. What polyconv does not take runs on PyTorch, and report() tells.

    deterministic  results of forward and data gradients do not depend on the batch, threads or stream; report() names
                   the layers for which no kernel can
    math           'strict', 'fp32_emulated', 'tf32' or 'fast' for f32; None follows PyTorch: TF32 on CUDA where
                   torch.backends.cudnn.allow_tf32 is set, strict elsewhere

    Works as a context manager too: `with polyconv.torch.enable(): ...`."""
    global _library
    if math is not None and (not isinstance(math, str) or math not in MATH):
        raise InvalidArgument(f"math is {math!r}, expected None or one of {', '.join(MATH)}")
    deterministic = flag(deterministic, "deterministic")
    with _lock:
        before = (_library is not None, state.deterministic, state.math)
        _tell(deterministic, math)
        if _library is None:
            library = torch.library.Library("aten", "IMPL")
            with warnings.catch_warnings():  # PyTorch warns that its kernel is overridden: that is what was asked for
                warnings.simplefilter("ignore")
                for key in _keys():
                    library.impl("convolution", _core.torch_convolution, key)
                    library.impl("convolution_backward", _core.torch_convolution_backward, key)
                    _autocast.register(library, key, _left)
            _library = library
    return Enabled(before)


def disable():
    """PyTorch's convolutions are its own again. Plans stay for the next enable(); cache_clear() drops them."""
    global _library
    with _lock:
        library, _library = _library, None
        if library is None:
            return
        if hasattr(library, "_destroy"):
            library._destroy()
        # An older PyTorch takes its registrations back when the last reference goes: here.


def is_enabled():
    return _library is not None


def fell(direction):
    _fallen[direction] += 1


def fallen():
    """Calls that went to PyTorch, forward and backward."""
    return dict(_fallen)


def reset_counts():
    _fallen.update(fwd=0, bwd=0)
    state.hits = state.misses = state.packed = state.evicted = 0
    _core.torch_clear(hits=True)


_native.hand_over(_left, _left_backward)
