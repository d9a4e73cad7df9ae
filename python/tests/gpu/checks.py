"""What the checks on a GPU share: how a check is told, when results are the same, and how CUDA graphs are captured."""
# SPDX-License-Identifier: Apache-2.0

import traceback

import torch

DEVICE = torch.device("cuda:0")
outcomes = []  # (PASS, SKIP or FAIL; the check; what it says)


class Skip(Exception):
    """A check that cannot be made here, and why."""


def check(name, function):
    """Prints PASS, SKIP or FAIL, with what the function gives back or raises."""
    try:
        outcome, note = "PASS", function()
    except Skip as reason:
        outcome, note = "SKIP", reason
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome, note = "FAIL", f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"
    say(outcome, name, "" if note is None else str(note))


def say(outcome, name, note):
    outcomes.append((outcome, name, note))
    print(f"{outcome}  {name}{': ' if note else ''}{note}", flush=True)


def distance(a, b):
    """The largest difference, of the size of the largest value."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-6))


def near(a, b, limit):
    """The distance of two tensors; an error where it is larger than the limit, or not a number."""
    assert a.shape == b.shape and a.dtype == b.dtype and a.device == b.device, (a.shape, b.shape, a.dtype, b.dtype)
    far = distance(a, b)
    assert far <= limit, f"differs by {far:.2e}, expected at most {limit:.0e}"
    return far


def last(tensor):
    """A tensor with the channels last in memory."""
    return tensor.contiguous(memory_format=torch.channels_last)


def pictures(batch, size=224, seed=0):
    return last(torch.randn(batch, 3, size, size, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(seed)))


def half(**settings):
    return torch.autocast("cuda", torch.float16, **settings)


def networks():
    """Three networks of torchvision, by name."""
    import torchvision

    return {
        "resnet50": torchvision.models.resnet50,
        "mobilenet_v3_large": torchvision.models.mobilenet_v3_large,
        "convnext_tiny": torchvision.models.convnext_tiny,
    }


def prepared(make, **settings):
    """A network on the GPU, channels last, whose batch norms do something."""
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    net = make(**settings).to(DEVICE).to(memory_format=torch.channels_last)
    for norm in net.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.7, 1.5)
    return net


def warm(work):
    """Runs once on another stream, as PyTorch's pages have it before a capture."""
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        work()
    torch.cuda.synchronize()


def captured(work):
    """(graph, result) of some work."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


def replayed(graph, result):
    """What a replay leaves in the result's memory."""
    graph.replay()
    torch.cuda.synchronize()
    return result.detach().clone()
