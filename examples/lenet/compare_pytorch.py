#!/usr/bin/env python3
"""One epoch of a given network in PyTorch on the GPU, as `lenet train --device cuda:0` does it: images on the device as
bytes, an epoch of shuffled batches, Adam, cross-entropy. Prints seconds an epoch, best of several: eager, compiled, and
with the whole step as one CUDA graph.

  compare_pytorch.py [strided|lenet|lenet86] [batch] [dtype f32|f16|bf16] [eager|compiled|graph, comma list]

TF32 stays off in f32, as polyconv's strict mode is. The data are random bytes: only time is measured here.
SPDX-License-Identifier: Apache-2.0"""
import sys
import time

import torch
from torch import nn

IMAGES = 60000


def network(name):
    def conv(c, k, f, **more):
        return nn.Conv2d(c, k, f, **more)
    relu = nn.ReLU
    layers = {
        "strided": [conv(1, 6, 5, padding=2), relu(), conv(6, 16, 4, stride=2), relu(), conv(16, 8, 3, padding=1),
                    relu(), conv(8, 4, 3), relu(), conv(4, 10, 11)],
        "lenet": [conv(1, 6, 5, padding=2), relu(), nn.MaxPool2d(2), conv(6, 16, 5), relu(), nn.MaxPool2d(2),
                  conv(16, 120, 5), relu(), conv(120, 84, 1), relu(), conv(84, 10, 1)],
        "lenet86": [conv(1, 4, 7), relu(), nn.MaxPool2d(2), conv(4, 16, 7), relu(), nn.MaxPool2d(4),
                    conv(16, 32, 8), relu(), conv(32, 10, 1)],
    }
    return nn.Sequential(*layers[name], nn.Flatten())


def picture(pixels, name):
    if name != "lenet86":
        return pixels
    large = pixels.repeat_interleave(3, 2).repeat_interleave(3, 3)
    return nn.functional.pad(large, (1, 1, 1, 1))


def captured(step, optimiser, batch):
    """The whole step, optimiser included, as one CUDA graph that is replayed: what lenet does."""
    chosen = torch.zeros(batch, dtype=torch.int64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # lets libraries choose and allocate before the capture
        for _ in range(3):
            optimiser.zero_grad(set_to_none=True)
            step(chosen)
    torch.cuda.current_stream().wait_stream(side)
    optimiser.zero_grad(set_to_none=True)  # gradients then live in the graph's own memory, and are written anew
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(chosen)

    def run(indices):
        chosen.copy_(indices)
        graph.replay()
        return loss
    return run


def seconds_an_epoch(name, batch, dtype, mode):
    device = torch.device("cuda")
    torch.manual_seed(1)
    pixels = torch.randint(0, 256, (IMAGES, 1, 28, 28), dtype=torch.uint8, device=device)
    labels = torch.randint(0, 10, (IMAGES,), device=device)
    model = network(name).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003, fused=True, capturable=True)
    total = torch.zeros((), device=device)

    def step(chosen):
        images = picture(pixels[chosen], name).float() / 255
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not torch.float32):
            scores = model(images)
        loss = nn.functional.cross_entropy(scores.float(), labels[chosen])
        loss.backward()
        return loss.detach()

    def whole_step(chosen):
        loss = step(chosen)
        optimiser.step()
        return loss

    run = captured(whole_step, optimiser, batch) if mode == "graph" else step if mode is None else torch.compile(step)
    times = []
    for _ in range(4):
        order = torch.randperm(IMAGES, device=device)
        order = torch.cat([order, order[:-IMAGES % batch]])
        torch.cuda.synchronize()
        start = time.perf_counter()
        for begin in range(0, len(order), batch):
            total += run(order[begin:begin + batch])
            if mode == "graph":
                continue  # the optimiser's step is in it
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "strided"
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 128
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[sys.argv[3] if len(sys.argv) > 3 else "f32"]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {name}, batches of {batch}, {dtype}", flush=True)
    modes = {"eager": None, "compiled": "default", "graph": "graph"}
    for what in sys.argv[4].split(",") if len(sys.argv) > 4 else modes:
        try:
            print(f"{what}: {seconds_an_epoch(name, batch, dtype, modes[what]):.3f} s an epoch", flush=True)
        except Exception as error:  # a machine without a C compiler has no torch.compile
            print(f"{what}: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)


main()
