"""What python/src/torch/ asks of PyTorch and of the files here, by the names there."""
# SPDX-License-Identifier: Apache-2.0

import torch

from .. import _core
from . import _autocast, _kept, _plans, _run

_quick = getattr(getattr(torch._C, "_dynamo", None), "guards", None)  # its functions make tensors without the dispatcher


def _current_device():
    return torch.cuda.current_device()


def hand_over(left_forward, left_backward):
    """Called once. `left_forward` and `left_backward` take calls that polyconv refused."""
    functions = {
        "is_grad_enabled": torch.is_grad_enabled,
        "thread_count": torch.get_num_threads,
        "allows_tf32": torch._C._get_cudnn_allow_tf32,
        "stream_of": _plans.stream_of,
        "is_capturing": _kept.is_capturing,
        "current_device": getattr(torch._C, "_cuda_getDevice", _current_device),
        "several_devices": True,  # until enable() has asked: CUDA that begins at an import ends in forked processes
        "empty_strided": torch.empty_strided,
        "empty_on_cpu": getattr(_quick, "_empty_strided_cpu", None),
        "empty_on_cuda": getattr(_quick, "_empty_strided_cuda", None),
        "float32": torch.float32,
        "float64": torch.float64,
        "uint8": torch.uint8,
        "packed": _kept.packed,
        "cast": _kept.cast,
        "convolution": torch.convolution,
        "autocast_type": _autocast.type_on,
        "tracing_state": torch._C._get_tracing_state,
        "mode_count": _autocast.modes,
        "transform": _autocast.transforms,
        "plain_types": _autocast.PLAIN,
        "decide_forward": _run.decide_forward,
        "decide_backward": _run.decide_backward,
        "not_taken": _run.not_taken,
        "sum_for_bias": _run.sum_for_bias,
        "refused": _plans.Refused,
        "left_forward": left_forward,
        "left_backward": left_backward,
        "on_forward": None,
        "on_backward": None,
        "exchange": getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
    }
    _core.torch_hand_over(functions)
