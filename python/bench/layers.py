#!/usr/bin/env python3
"""Which layers of a model are slower through polyconv.torch.enable() than in PyTorch itself?

    PYTHONPATH=build/python/python python3 python/bench/layers.py MODEL [--batch 1] [--device cpu] [--channels-last] [--rounds 30]

Runs each sort of convolution of a model of models.py by itself, forward, PyTorch and polyconv in turns, and prints them in the order
of the time that the model loses (or gains) by them: calls in the model, microseconds of a call by either, the kernel."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import contextlib
import math
import sys
import time

import torch

import polyconv.torch as face
from models import MODELS


def sorts_of(net, x):
    """(layer, shape of its input, how often) for each sort of convolution."""
    found, hooks = {}, []

    def note(layer, inputs, _):
        given = inputs[0]
        key = (tuple(layer.weight.shape), layer.stride, layer.padding, layer.groups, tuple(given.shape))
        found.setdefault(key, [layer, given.detach().clone(memory_format=torch.preserve_format), 0])[2] += 1

    for layer in net.modules():
        if isinstance(layer, torch.nn.modules.conv._ConvNd):
            hooks.append(layer.register_forward_hook(note))
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return list(found.values())


def least(function, rounds):
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def least_in_graph(function, rounds):
    """On a GPU, where a call takes the host longer than a small layer takes the device: a graph of ten calls."""
    calls, best = 10, math.inf
    with torch.cuda.stream(torch.cuda.Stream()):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    for _ in range(rounds):
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(stop) / calls)
    return best * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    cuda = options.device.startswith("cuda")
    torch.backends.cudnn.benchmark = True
    make, shape, _, _ = MODELS[options.model]
    dtype = torch.float16 if cuda else torch.float32
    net = make().eval().to(options.device, dtype)
    x = torch.randn(options.batch, *shape, device=options.device, dtype=dtype)
    if options.channels_last:
        last = torch.channels_last_3d if len(shape) == 4 else torch.channels_last
        x = x.contiguous(memory_format=last)
        for each in net.modules():
            if isinstance(each, torch.nn.modules.conv._ConvNd):
                each.weight.data = each.weight.data.contiguous(memory_format=last)
    rows, measure = [], least_in_graph if cuda else least
    with torch.no_grad():
        for layer, given, calls in sorts_of(net, x):
            face.cache_clear()
            with face.enable():
                layer(given)
                row = face.report()[0]
            times = [math.inf, math.inf]
            for _ in range(3):
                for i, on in enumerate((contextlib.nullcontext, face.enable)):
                    with on():
                        layer(given)
                        times[i] = min(times[i], measure(lambda: layer(given), options.rounds // 3 + 1))
            rows.append((calls * (times[1] - times[0]), calls, *times, row.problem, row.kernel))
    print(f"{'lost, us':>9} {'calls':>5} {'PyTorch':>9} {'polyconv':>9} {'ratio':>6}")
    for lost, calls, theirs, ours, problem, kernel in sorted(rows, reverse=True):
        print(f"{lost:9.0f} {calls:5} {theirs:9.1f} {ours:9.1f} {theirs / ours:6.2f}  {problem}  {kernel}")
    total = [sum(row[1] * row[i] for row in rows) for i in (2, 3)]
    print(f"all convolutions: {total[0]:.0f} / {total[1]:.0f} us = {total[0] / total[1]:.3f}")


if __name__ == "__main__":
    sys.exit(main())
