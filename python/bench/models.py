"""Whole models that whole_models.py times: written here after their papers, with random weights, so that a machine without torchvision or
a network has them. Channels and depths are the published ones; `width` scales channels down for tests."""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))
from vae_decoder import VaeDecoder  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def scaled(channels, width):
    """Channels times a width, in eights."""
    return max(8, int(channels * width + 4) // 8 * 8)


def conv_norm(channels, wanted, size=3, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(channels, wanted, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(wanted)]
    return nn.Sequential(*layers, *([act(inplace=True)] if act is not None else []))


class Bottleneck(nn.Module):
    """He et al. 2015, with the stride in the 3 x 3 as everybody has it."""

    def __init__(self, channels, inner, stride):
        super().__init__()
        wanted = 4 * inner
        self.body = nn.Sequential(
            conv_norm(channels, inner, 1), conv_norm(inner, inner, 3, stride), conv_norm(inner, wanted, 1, act=None)
        )
        self.down = None
        if stride > 1 or channels != wanted:
            self.down = conv_norm(channels, wanted, 1, stride, act=None)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.body(x)
        y += x if self.down is None else self.down(x)
        return self.relu(y)


class Classifier(nn.Module):
    """Features, mean over the picture, 1000 classes."""

    def __init__(self, features, channels):
        super().__init__()
        self.features, self.head = features, nn.Linear(channels, 1000)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def resnet50(width=1.0):
    channels = scaled(64, width)
    layers = [conv_norm(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for stage, (inner, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(depth):
            layers.append(Bottleneck(channels, scaled(inner, width), 2 if stage and not i else 1))
            channels = 4 * scaled(inner, width)
    return Classifier(nn.Sequential(*layers), channels)


class Gate(nn.Module):
    """Squeeze and excite (Hu et al. 2017), with the hard sigmoid of MobileNetV3."""

    def __init__(self, channels, inner):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """Inverted residual: 1 x 1 up, depthwise, perhaps a gate, 1 x 1 down (Sandler et al. 2018, Howard et al. 2019)."""

    def __init__(self, channels, inner, wanted, size, stride, act, gate=False):
        super().__init__()
        layers = [conv_norm(channels, inner, 1, act=act)] if inner != channels else []
        layers.append(conv_norm(inner, inner, size, stride, inner, act))
        if gate:
            layers.append(Gate(inner, scaled(inner / 4, 1)))
        self.body = nn.Sequential(*layers, conv_norm(inner, wanted, 1, act=None))
        self.adds = stride == 1 and channels == wanted

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2(width=1.0):
    channels = scaled(32, width)
    layers = [conv_norm(3, channels, 3, 2, act=nn.ReLU6)]
    for factor, wanted, depth, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        for i in range(depth):
            layers.append(Inverted(channels, channels * factor, scaled(wanted, width), 3, 1 if i else stride, nn.ReLU6))
            channels = scaled(wanted, width)
    layers.append(conv_norm(channels, scaled(1280, width), 1, act=nn.ReLU6))
    return Classifier(nn.Sequential(*layers), scaled(1280, width))


def mobilenet_v3(width=1.0):
    """The large one."""
    channels = scaled(16, width)
    layers = [conv_norm(3, channels, 3, 2, act=nn.Hardswish)]
    relu, swish = nn.ReLU, nn.Hardswish
    for size, inner, wanted, gate, act, stride in (
        (3, 16, 16, False, relu, 1), (3, 64, 24, False, relu, 2), (3, 72, 24, False, relu, 1), (5, 72, 40, True, relu, 2),
        (5, 120, 40, True, relu, 1), (5, 120, 40, True, relu, 1), (3, 240, 80, False, swish, 2), (3, 200, 80, False, swish, 1),
        (3, 184, 80, False, swish, 1), (3, 184, 80, False, swish, 1), (3, 480, 112, True, swish, 1), (3, 672, 112, True, swish, 1),
        (5, 672, 160, True, swish, 2), (5, 960, 160, True, swish, 1), (5, 960, 160, True, swish, 1),
    ):  # fmt: skip
        layers.append(Inverted(channels, scaled(inner, width), scaled(wanted, width), size, stride, act, gate))
        channels = scaled(wanted, width)
    layers.append(conv_norm(channels, scaled(960, width), 1, act=nn.Hardswish))
    return Classifier(nn.Sequential(*layers), scaled(960, width))


class LastNorm(nn.Module):
    """Layer norm over channels, wherever they lie."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NextBlock(nn.Module):
    """Liu et al. 2022: depthwise 7 x 7, norm, two linear layers."""

    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.rest = nn.Sequential(
            nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )
        self.scale = nn.Parameter(torch.full((channels,), 1e-2))

    def forward(self, x):
        return x + (self.rest(self.depthwise(x).permute(0, 2, 3, 1)) * self.scale).permute(0, 3, 1, 2)


def convnext_tiny(width=1.0):
    channels = scaled(96, width)
    layers = [nn.Conv2d(3, channels, 4, 4), LastNorm(channels)]
    for stage, depth in enumerate((3, 3, 9, 3)):
        if stage:
            layers += [LastNorm(channels), nn.Conv2d(channels, 2 * channels, 2, 2)]
            channels *= 2
        layers += [NextBlock(channels) for _ in range(depth)]
    return Classifier(nn.Sequential(*layers), channels)


class Split(nn.Module):
    """The C2f block of YOLOv8: bottlenecks of which each result is kept."""

    def __init__(self, channels, wanted, depth, adds=True):
        super().__init__()
        half = wanted // 2
        self.first, self.last = conv_norm(channels, wanted, 1, act=nn.SiLU), conv_norm(half * (2 + depth), wanted, 1, act=nn.SiLU)
        self.inner = nn.ModuleList(
            nn.Sequential(conv_norm(half, half, act=nn.SiLU), conv_norm(half, half, act=nn.SiLU)) for _ in range(depth)
        )
        self.adds = adds

    def forward(self, x):
        kept = list(self.first(x).chunk(2, 1))
        for layer in self.inner:
            y = layer(kept[-1])
            kept.append(kept[-1] + y if self.adds else y)
        return self.last(torch.cat(kept, 1))


class Yolo(nn.Module):
    """A detector like YOLOv8-s: backbone, pyramid up and down, three heads of 64 + 80 channels."""

    def __init__(self, width=1.0):
        super().__init__()
        c = [scaled(channels, width) for channels in (32, 64, 128, 256, 512)]
        self.stem = conv_norm(3, c[0], 3, 2, act=nn.SiLU)
        self.stages = nn.ModuleList(
            nn.Sequential(conv_norm(c[i], c[i + 1], 3, 2, act=nn.SiLU), Split(c[i + 1], c[i + 1], depth))
            for i, depth in enumerate((1, 2, 2, 1))
        )
        self.pool_first = conv_norm(c[4], c[4] // 2, 1, act=nn.SiLU)
        self.pool_last = conv_norm(2 * c[4], c[4], 1, act=nn.SiLU)
        self.up4, self.up3 = Split(c[4] + c[3], c[3], 1, False), Split(c[3] + c[2], c[2], 1, False)
        self.down3, self.down4 = conv_norm(c[2], c[2], 3, 2, act=nn.SiLU), conv_norm(c[3], c[3], 3, 2, act=nn.SiLU)
        self.merge4, self.merge5 = Split(c[2] + c[3], c[3], 1, False), Split(c[3] + c[4], c[4], 1, False)
        self.heads = nn.ModuleList(
            nn.Sequential(conv_norm(each, c[2], act=nn.SiLU), conv_norm(c[2], c[2], act=nn.SiLU), nn.Conv2d(c[2], 144, 1))
            for each in c[2:]
        )

    def forward(self, x):
        x = self.stem(x)
        kept = []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        x = self.pool_first(x)
        pooled = [x]
        for _ in range(3):
            pooled.append(F.max_pool2d(pooled[-1], 5, 1, 2))
        p5 = self.pool_last(torch.cat(pooled, 1))
        p4 = self.up4(torch.cat((F.interpolate(p5, scale_factor=2.0), kept[2]), 1))
        p3 = self.up3(torch.cat((F.interpolate(p4, scale_factor=2.0), kept[1]), 1))
        p4 = self.merge4(torch.cat((self.down3(p3), p4), 1))
        p5 = self.merge5(torch.cat((self.down4(p4), p5), 1))
        return torch.cat([head(each).flatten(2) for head, each in zip(self.heads, (p3, p4, p5))], 2)


class UNet3d(nn.Module):
    """Çiçek et al. 2016: four levels of two 3 x 3 x 3 layers, pooled by 2, upsampled by transposed 2 x 2 x 2 layers."""

    def __init__(self, width=1.0, classes=4):
        super().__init__()
        c = [scaled(channels, width) for channels in (32, 64, 128, 256)]

        def two(channels, wanted):
            layers = []
            for each in (channels, wanted):
                layers += [nn.Conv3d(each, wanted, 3, padding=1, bias=False), nn.BatchNorm3d(wanted), nn.ReLU(inplace=True)]
            return nn.Sequential(*layers)

        self.downs = nn.ModuleList(two(before, each) for before, each in zip([1, *c[:-1]], c))
        self.ups = nn.ModuleList(nn.ConvTranspose3d(c[i + 1], c[i], 2, 2) for i in (2, 1, 0))
        self.merges = nn.ModuleList(two(2 * c[i], c[i]) for i in (2, 1, 0))
        self.last = nn.Conv3d(c[0], classes, 1)

    def forward(self, x):
        kept = []
        for level, layer in enumerate(self.downs):
            x = layer(F.max_pool3d(x, 2) if level else x)
            kept.append(x)
        for up, merge, skip in zip(self.ups, self.merges, reversed(kept[:-1])):
            x = merge(torch.cat((skip, up(x)), 1))
        return self.last(x)


# name: (make(width), shape of an input without the batch, batches for inference, batch for training)
MODELS = {
    "resnet50": (resnet50, (3, 224, 224), (1, 32), 32),
    "mobilenet_v2": (mobilenet_v2, (3, 224, 224), (1, 32), 32),
    "mobilenet_v3": (mobilenet_v3, (3, 224, 224), (1, 32), 32),
    "convnext_tiny": (convnext_tiny, (3, 224, 224), (1, 32), 32),
    "yolo": (Yolo, (3, 640, 640), (1, 16), 8),
    "vae_decoder": (lambda width=1.0: VaeDecoder(max(16, int(128 * width) // 16 * 16)), (4, 64, 64), (1, 4), 1),
    "unet3d": (UNet3d, (1, 96, 96, 96), (1, 2), 2),
}
