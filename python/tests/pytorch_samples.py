#!/usr/bin/env python3
"""PyTorch's own samples of its convolutions (torch.testing, in the version that is installed), with polyconv.torch.enable() on and
without: do results, gradients, strides and errors agree?

    PYTHONPATH=build/python/python python3 python/tests/pytorch_samples.py [--device cpu]

Every sort of convolution and every type that PyTorch takes there, and the arguments that it refuses. Needs PyTorch 2.0 and expecttest.
Prints what differs and the counts; exit code 1 where something does."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import collections
import sys
import warnings

import torch

import polyconv.torch as face

LIMITS = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 4e-3, torch.bfloat16: 4e-2}  # of the largest number; else equal


def tensors(of):
    if isinstance(of, torch.Tensor):
        return [of]
    return [each for one in of for each in tensors(one)] if isinstance(of, (list, tuple)) else []


def outcome(op, sample, with_gradients):
    """The result and its gradients, or the sort of error."""
    try:
        result = op(sample.input, *sample.args, **sample.kwargs)
        wanted = [each for each in tensors([sample.input, *sample.args, *sample.kwargs.values()]) if each.requires_grad]
        gradients = torch.autograd.grad(result, wanted, torch.full_like(result, 0.5), allow_unused=True) if with_gradients else ()
        return [each for each in (result, *gradients) if each is not None]
    except Exception as error:
        return type(error)


def difference(ours, theirs):
    """What is not the same, in words; None where all is."""
    if isinstance(ours, type) or isinstance(theirs, type):
        return None if ours == theirs else f"{ours} instead of {theirs}"
    for a, b in zip(ours, theirs):
        if (a.shape, a.dtype) != (b.shape, b.dtype) or (a.numel() and a.stride() != b.stride()):
            return f"{a.dtype} {tuple(a.shape)}, strides {a.stride()}, instead of {b.dtype} {tuple(b.shape)}, {b.stride()}"
        real = a.abs().dtype  # complex ones are several convolutions of real numbers
        inexact = a.numel() and real in LIMITS
        far = float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) if inexact else float(not torch.equal(a, b))
        if not far <= LIMITS.get(real, 0):
            return f"{tuple(a.shape)} of {a.dtype} differ by {far:.1e}"
    return None


def samples(op, device):
    """(sample, whether gradients are looked at, how to say it)"""
    for dtype in sorted(op.supported_dtypes(device), key=str):
        gradients = dtype in op.supported_backward_dtypes(device)
        for sample in op.sample_inputs(device, dtype, requires_grad=gradients):
            yield sample, gradients, str(dtype)
    for bad in op.error_inputs(device) if op.error_inputs_func else ():
        yield bad.sample_input, False, "bad arguments"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

    counts, differ = collections.Counter(), 0
    for op in (each for each in op_db if ".conv" in each.name):
        torch.manual_seed(0)
        for sample, gradients, what in samples(op, device):
            theirs = outcome(op, sample, gradients)
            with face.enable():
                ours = outcome(op, sample, gradients)
            counts[what] += 1
            wrong = difference(ours, theirs)
            if wrong is not None:
                differ += 1
                shapes = [tuple(each.shape) for each in tensors([sample.input, *sample.args])]
                print(f"{op.name} of {shapes}, {sample.kwargs}, {what}: {wrong}")
    info = face.cache_info()
    print(f"PyTorch {torch.__version__}, {device}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    print(f"{sum(counts.values())} samples, {differ} differ; {info.fallen_forward} calls forward and {info.fallen_backward} backward left to PyTorch")
    return 1 if differ or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
