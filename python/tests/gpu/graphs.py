"""CUDA graphs: replays on new inputs, what they read of what is packed, and what they see of weights that change. A capture fails where
anything in it waits for the GPU."""
# SPDX-License-Identifier: Apache-2.0

import gc

import torch

import polyconv.torch as face
from checks import DEVICE, captured, check, half, near, networks, pictures, prepared, replayed, warm


def on_new_inputs(make, fused, context):
    """Inference: packs nothing within the capture, and a replay is right on another picture."""

    def run():
        net, x = prepared(make).eval(), pictures(4)
        face.cache_clear()
        used = face.fuse(net) if fused else net

        def work():
            with torch.no_grad(), context():
                return used(x)

        with face.enable():
            warm(work)
            packed = face.cache_info().times_packed
            graph, y = captured(work)
            within = face.cache_info().times_packed - packed
            x.copy_(pictures(4, seed=5))
            y = replayed(graph, y)
        assert not within, f"{within} weights packed within the capture, {packed} before it"
        with torch.no_grad(), context():
            return f"differs by {near(y.float(), net(x).float(), 5e-2):.1e}"

    return run


def small():
    """Two layers and an input."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.Conv2d(64, 64, 3, padding=1)).to(DEVICE)
    return net, torch.randn(8, 64, 32, 32, device=DEVICE)


def inference(net, x):
    def work():
        with torch.no_grad(), half():
            return net(x)

    return work


def scale(net, factor):
    with torch.no_grad():
        for each in net.parameters():
            each.mul_(factor)


def after_cache_clear():
    """What a graph reads stays where it is."""
    net, x = small()
    work = inference(net, x)
    with face.enable():
        warm(work)
        graph, y = captured(work)
        face.cache_clear()
        gc.collect()
        torch.cuda.empty_cache()
        rubbish = [torch.full((1 << 18,), float("nan"), device=DEVICE) for _ in range(64)]
        y = replayed(graph, y)
        del rubbish
    return f"differs by {near(y, work(), 1e-2):.1e}"


def weights_that_change():
    """Without gradients a run outside the graph packs them in the place that the graph reads."""
    net, x = small()
    work = inference(net, x)
    with face.enable():
        warm(work)
        graph, y = captured(work)
        scale(net, -1.5)
        exact = work()
        y = replayed(graph, y)
    return f"differs by {near(y, exact, 1e-2):.1e}"


def weights_that_change_under_gradients():
    """Packing is part of the graph."""
    net, x = small()

    def work():
        with half(cache_enabled=False):
            return net(x)

    with face.enable():
        warm(work)
        graph, y = captured(work)
        scale(net, -1.5)
        y = replayed(graph, y)
    return f"differs by {near(y, work().detach(), 1e-2):.1e}"


def run():
    for name, make in networks().items():
        check(f"graph of {name}, f16 autocast", on_new_inputs(make, False, half))
        check(f"graph of {name}, fused, f16 autocast", on_new_inputs(make, True, half))
    check("graph of resnet50, f32", on_new_inputs(networks()["resnet50"], False, lambda: half(enabled=False)))
    check("graph after cache_clear()", after_cache_clear)
    check("graph and weights that change", weights_that_change)
    check("graph and weights that change, with gradients", weights_that_change_under_gradients)
