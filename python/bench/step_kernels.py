#!/usr/bin/env python3
"""What a training step of a model launches on the GPU, with and without polyconv: kernels by name, how often and how long.

    PYTHONPATH=build/python/python POLYCONV_BACKEND_PATH=/abs/build/cuda/lib/polyconv python3 python/bench/step_kernels.py resnet50
        [--steps 3] [--most 40] [--inference]

As whole_models.py has it: channels last, f16 by autocast, cudnn.benchmark on. Sums of times are of kernels alone, with what they
wait for where they begin early; the host's time of a step is printed beside them."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import collections
import contextlib
import re
import time

import torch

import polyconv.torch as face
from models import MODELS
from whole_models import Bench, parser as bench_parser

_PARTS = re.compile(r"<.*|\(.*")


def short(name):
    """A kernel's name without arguments, of templates' too, and what tells cuDNN's and PyTorch's apart."""
    plain = _PARTS.sub("", name.replace("void ", "").replace("(anonymous namespace)::", ""))
    functor = re.search(r"(\w+(?:Functor|Ops|_kernel_cuda|KernelImpl)\w*)", name[len(plain) :])
    return plain + (f" [{functor.group(1)}]" if functor else "")


def kernels_of(work, steps):
    """({name: (times a step, us a step)}, the host's ms of a step)"""
    for _ in range(4):
        work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        work()
    host = (time.perf_counter() - begin) * 1e3 / steps
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(steps):
            work()
        torch.cuda.synchronize()
    found = collections.defaultdict(lambda: [0, 0.0])
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            of = found[short(event.name)]
            of[0] += 1 / steps
            of[1] += event.time_range.elapsed_us() / steps
    return found, host


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--most", type=int, default=40, help="names to print, of those that take most")
    parser.add_argument("--inference", action="store_true", help="a forward pass without gradients instead")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    training = not options.inference
    bench = Bench(options.model, bench_parser().parse_args(["--device", "cuda"]))
    x = bench.input(bench.training_batch if training else bench.batches[-1])
    for side in ("PyTorch", "polyconv"):
        with face.enable() if side == "polyconv" else contextlib.nullcontext():
            found, host = kernels_of(bench.work(bench.model(training), x, training), options.steps)
        count, time_us = (sum(column) for column in zip(*found.values()))
        print(f"{options.model} with {side}: {count:.0f} kernels, {time_us / 1e3:.3f} ms of them, the host {host:.2f} ms")
        for name, (times, us) in sorted(found.items(), key=lambda item: -item[1][1])[: options.most]:
            print(f"  {us:9.1f} us {times:6.1f} x  {name[:120]}")


if __name__ == "__main__":
    main()
