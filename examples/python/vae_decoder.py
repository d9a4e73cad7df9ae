#!/usr/bin/env python3
"""The decoder of Stable Diffusion's autoencoder, from a latent to a picture: memory and time on polyconv beside PyTorch's own.

    python3 examples/python/vae_decoder.py [--size 512] [--width 128] [--device cuda] [--rounds 5]

The module has the structure of the decoder in Hugging Face's diffusers (AutoencoderKL: a convolution of the latent, a middle
block with attention, four blocks of three residual layers each of which but the last doubles the picture, group norm and
SiLU before each 3 x 3 convolution) and random weights, so that nothing is downloaded. Prints one line for PyTorch and one for
polyconv, and how far the pictures are apart; exit code 1 where that is too far."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import resource
import sys
import time

import torch

import polyconv.torch

nn, F = torch.nn, torch.nn.functional


def norm(channels):
    return nn.GroupNorm(min(32, channels // 4), channels, eps=1e-6)


class Residual(nn.Module):
    """Norm, SiLU, 3 x 3, twice; 1 x 1 around them where the channels change."""

    def __init__(self, channels, wanted):
        super().__init__()
        self.norm1, self.conv1 = norm(channels), nn.Conv2d(channels, wanted, 3, padding=1)
        self.norm2, self.conv2 = norm(wanted), nn.Conv2d(wanted, wanted, 3, padding=1)
        self.shortcut = nn.Identity() if channels == wanted else nn.Conv2d(channels, wanted, 1)

    def forward(self, x):
        y = self.conv1(F.silu(self.norm1(x)))
        return self.conv2(F.silu(self.norm2(y))) + self.shortcut(x)


class Attention(nn.Module):
    """One head over all pixels."""

    def __init__(self, channels):
        super().__init__()
        self.norm = norm(channels)
        self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x):
        n, c, h, w = x.shape
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        query, key, value = self.query(pixels), self.key(pixels), self.value(pixels)
        if hasattr(F, "scaled_dot_product_attention"):
            seen = F.scaled_dot_product_attention(query, key, value)
        else:
            seen = torch.softmax(query @ key.transpose(1, 2) * c**-0.5, -1) @ value
        return x + self.out(seen).transpose(1, 2).reshape(n, c, h, w)


class Up(nn.Module):
    """Three residual layers, then twice the size."""

    def __init__(self, channels, wanted, grows):
        super().__init__()
        self.layers = nn.Sequential(Residual(channels, wanted), Residual(wanted, wanted), Residual(wanted, wanted))
        self.conv = nn.Conv2d(wanted, wanted, 3, padding=1) if grows else None

    def forward(self, x):
        x = self.layers(x)
        return x if self.conv is None else self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class VaeDecoder(nn.Module):
    """latent (N, 4, h, w) -> picture (N, 3, 8 h, 8 w); `width` is 128 in Stable Diffusion."""

    def __init__(self, width=128):
        super().__init__()
        widest = 4 * width
        self.latent = nn.Conv2d(4, 4, 1)
        self.first = nn.Conv2d(4, widest, 3, padding=1)
        self.middle = nn.Sequential(Residual(widest, widest), Attention(widest), Residual(widest, widest))
        self.ups = nn.Sequential(
            Up(widest, widest, True), Up(widest, widest, True), Up(widest, 2 * width, True), Up(2 * width, width, False)
        )
        self.norm, self.last = norm(width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, latent):
        x = self.ups(self.middle(self.first(self.latent(latent))))
        return self.last(F.silu(self.norm(x)))


def peak_mb(device):
    """The most memory so far: of PyTorch's allocator on CUDA, of the whole process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measured(decode, latent, device, rounds):
    """(picture, least milliseconds, peak of memory in MB) of so many rounds after a first one."""
    picture = decode(latent)
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        decode(latent)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return picture, min(times), peak_mb(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--size", type=int, default=512, help="of the picture, a multiple of 8 (default 512)")
    parser.add_argument("--width", type=int, default=128, help="channels of the last block, a multiple of 16 (default 128)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.size < 8 or options.size % 8:
        parser.error(f"--size is {options.size}, expected a multiple of 8")
    if options.width < 16 or options.width % 16:
        parser.error(f"--width is {options.width}, expected a multiple of 16")
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}, expected at least 1")
    device = torch.device(options.device)
    torch.manual_seed(0)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    torch.backends.cudnn.benchmark = True
    decoder = VaeDecoder(options.width).eval().to(device, dtype).to(memory_format=torch.channels_last)
    latent = torch.randn(1, 4, options.size // 8, options.size // 8, device=device, dtype=dtype)
    latent = latent.contiguous(memory_format=torch.channels_last)

    # Memory of the CPU is a peak of the whole process, which never falls: who comes second can only show more.
    with torch.no_grad():
        with polyconv.torch.enable():
            ours = measured(decoder, latent, device, options.rounds)
            report = polyconv.torch.report(decoder)
        theirs = measured(decoder, latent, device, options.rounds)
    where = "peak of the GPU's memory" if device.type == "cuda" else "peak of the process's memory so far"
    print(f"a picture of {options.size} x {options.size}, width {options.width}, {dtype}, {device}; {where}")
    print(f"polyconv  {ours[1]:9.1f} ms  {ours[2]:8.0f} MB   {str(report).splitlines()[-1]}")
    print(f"PyTorch   {theirs[1]:9.1f} ms  {theirs[2]:8.0f} MB")
    far = float((ours[0].double() - theirs[0].double()).abs().max() / theirs[0].double().abs().max())
    print(f"the pictures differ by {far:.1e} of the largest value")
    return 0 if far < (2e-2 if dtype == torch.float16 else 1e-4) else 1


if __name__ == "__main__":
    sys.exit(main())
