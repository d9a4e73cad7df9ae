#!/usr/bin/env python3
"""A pipeline over a photograph, H x W x 3 bytes all the way: blur, unsharp mask, edges.

    python3 examples/python/photograph.py PICTURE [FOLDER]

Reads a picture with Pillow and writes blurred.png, sharp.png and edges.png into FOLDER (by default the current one). Each
step is one call of polyconv.filter on the array as Pillow gives it: no conversion to floats, no transposed copy."""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys
import time

import numpy

import polyconv


def gaussian(sigma):
    """A vector of weights, three sigmas to either side, whose sum is 1."""
    reach = max(1, round(3 * sigma))
    weights = numpy.exp(-0.5 * (numpy.arange(-reach, reach + 1) / sigma) ** 2)
    return weights / weights.sum()


def blurred(picture, sigma):
    """A separable filter: two vectors instead of their outer product."""
    return polyconv.filter(picture, (gaussian(sigma), gaussian(sigma)), border="reflect")


def sharpened(picture, sigma=1.5, amount=0.8):
    """picture + amount (picture - blurred picture), which is one filter: rounded and saturated once, at its end."""
    weights = gaussian(sigma)
    kernel = -amount * numpy.outer(weights, weights)
    kernel[len(weights) // 2, len(weights) // 2] += 1 + amount
    return polyconv.filter(picture, kernel, border="reflect")


def edges(picture):
    """The length of the gradient by Sobel's filters, of a grey picture in f32."""
    grey = picture.astype("float32") @ numpy.float32([0.299, 0.587, 0.114])
    across = polyconv.filter(grey, ([-1, 0, 1], [1, 2, 1]), border="replicate")
    down = polyconv.filter(grey, ([1, 2, 1], [-1, 0, 1]), border="replicate")
    return numpy.hypot(across, down).clip(0, 255).astype("uint8")


def main(arguments):
    try:
        from PIL import Image
    except ImportError:
        sys.exit("this example reads pictures with Pillow: pip install pillow")
    if not 1 <= len(arguments) <= 2:
        sys.exit(__doc__.split("\n\n")[1].strip())
    try:
        picture = numpy.asarray(Image.open(arguments[0]).convert("RGB"))
        folder = pathlib.Path(arguments[1] if len(arguments) == 2 else ".")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{arguments[0]}: {error}")
    for name, step in (("blurred", lambda: blurred(picture, 4.0)), ("sharp", lambda: sharpened(picture)), ("edges", lambda: edges(picture))):
        start = time.perf_counter()
        result = step()
        print(f"{name:8} {'x'.join(map(str, result.shape))} {result.dtype}, {(time.perf_counter() - start) * 1e3:.1f} ms")
        Image.fromarray(result).save(folder / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
