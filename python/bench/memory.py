"""What a process has of memory: the host's by Linux, CUDA's workspaces by PyTorch."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import ctypes
import gc

import torch


def trim():
    """Gives memory that nobody uses back to the system, where C's library can."""
    gc.collect()
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)


def resident(peak=False):
    """MB of the process, or the most since forget_peak(); 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
    except OSError:
        return 0.0
    return int(lines["VmHWM" if peak else "VmRSS"].split()[0]) * 1024 / 1e6


def forget_peak():
    with contextlib.suppress(OSError):
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")


def drop_workspaces():
    """Gives cuBLAS's workspaces back; it takes new ones as it needs them."""
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
