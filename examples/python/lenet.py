#!/usr/bin/env python3
"""LeNet trained in PyTorch, with polyconv and without: losses and times side by side.

    python3 examples/python/lenet.py [--data FOLDER] [--steps 300] [--device cuda]

FOLDER has the four files of MNIST (train-images-idx3-ubyte.gz and so on); without it, digits are drawn: seven-segment
figures, moved and noisy, which a network learns as well. The model, the optimiser and the loop are PyTorch's own; the one
line of ours is `with polyconv.torch.enable():`."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import gzip
import pathlib
import sys
import time

import numpy
import torch

import polyconv.torch

nn, F = torch.nn, torch.nn.functional


def idx(path):
    """A file of the MNIST format as an array."""
    with gzip.open(path, "rb") as file:
        data = file.read()
    axes = data[3]
    shape = numpy.frombuffer(data, ">i4", axes, 4)
    return numpy.frombuffer(data, "uint8", offset=4 + 4 * axes).reshape(shape)


def drawn(count, seed):
    """Pictures of seven-segment digits, 28 x 28, and their labels."""
    generator = numpy.random.default_rng(seed)
    bars = {"a": (0, 0, 1, 6), "b": (0, 5, 6, 6), "c": (6, 5, 12, 6), "d": (12, 0, 13, 6), "e": (6, 0, 12, 1), "f": (0, 0, 6, 1), "g": (6, 0, 7, 6)}
    lit = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
    labels = generator.integers(0, 10, count)
    pictures = generator.normal(20, 15, (count, 28, 28))
    for picture, label in zip(pictures, labels):
        top, left = generator.integers(2, 12, 2)
        for bar in lit[label]:
            y0, x0, y1, x1 = bars[bar]
            picture[top + y0 : top + y1 + 1, left + x0 : left + x1 + 1] += 180
    return pictures.clip(0, 255).astype("uint8"), labels


def data(folder):
    """(training pictures and labels, test pictures and labels) as tensors."""
    sets = []
    for name, count, seed in (("train", 6000, 1), ("t10k", 1000, 2)):
        if folder is None:
            pictures, labels = drawn(count, seed)
        else:
            pictures, labels = idx(folder / f"{name}-images-idx3-ubyte.gz"), idx(folder / f"{name}-labels-idx1-ubyte.gz")
        sets.append(torch.from_numpy(pictures.copy()).float().div(255).unsqueeze(1))
        sets.append(torch.from_numpy(labels.astype("int64")))
    return sets


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(),
        nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip


def train(sets, steps, device):
    """(losses, seconds, share of the test set that is right)."""
    torch.manual_seed(0)
    net = lenet().to(device)
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    pictures, labels, test_pictures, test_labels = (each.to(device) for each in sets)
    order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(1)).to(device)
    losses, start = [], time.perf_counter()
    for step in range(steps):
        batch = order[torch.arange(step * 64, step * 64 + 64, device=device) % len(order)]
        optimizer.zero_grad()
        loss = F.cross_entropy(net(pictures[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = [float(loss) for loss in losses]
    seconds = time.perf_counter() - start
    with torch.no_grad():
        right = float((net(test_pictures).argmax(1) == test_labels).float().mean())
    return losses, seconds, right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=pathlib.Path, help="folder with the four files of MNIST")
    parser.add_argument("--steps", type=int, default=300, help="of 64 pictures")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}, expected at least 1")
    try:
        sets = data(options.data)
    except OSError as error:
        sys.exit(str(error))
    train(sets, 5, options.device)  # plans, threads and cuDNN's choices are made here, not in the times
    theirs = train(sets, options.steps, options.device)
    with polyconv.torch.enable():
        train(sets, 5, options.device)
        ours = train(sets, options.steps, options.device)
    print(f"{'MNIST' if options.data else 'drawn digits'}, {options.steps} steps of 64 on {options.device}; loss by step")
    print(f"{'step':>6} {'PyTorch':>9} {'polyconv':>9}")
    shown = sorted({0, 1, 2, 5, 10, options.steps // 4, options.steps // 2, options.steps - 1} & set(range(options.steps)))
    for step in shown:
        print(f"{step:6} {theirs[0][step]:9.4f} {ours[0][step]:9.4f}")
    for name, (_, seconds, right) in (("PyTorch", theirs), ("polyconv", ours)):
        print(f"{name:9} {seconds:6.2f} s, {100 * right:.2f} % of the test set right")
    print(str(polyconv.torch.report()).splitlines()[-1])


if __name__ == "__main__":
    main()
