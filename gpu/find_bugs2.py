#!/usr/bin/env python3
"""Second run: gradients layer by layer beside f64 truth and beside PyTorch's own f16; what autocast packs; graphs' packs.

    PYTHONPATH=build/python/python:examples/python POLYCONV_BACKEND_PATH=... python3 gpu/find_bugs2.py [CASE...]"""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import gc
import sys

import find_bugs as one
from find_bugs import case, half, main, verdict

one.CASES.clear()
one.LIMIT = 45
one.__file__ = __file__


def net_of(name, size=128, batch=4):
    """A training model of python/bench/models.py, all of it as that bench makes it."""
    import torch
    from models import MODELS

    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    make, shape = MODELS[name][:2]
    shape = (shape[0], *[{1: 48, 3: size, 4: 16}[shape[0]]] * (len(shape) - 1))
    net = make(1.0 if name == "resnet50" else 0.5).cuda()
    last = torch.channels_last_3d if len(shape) == 4 else torch.channels_last
    for each in net.modules():
        weight = getattr(each, "weight", None)
        if weight is not None and weight.dim() > 1:
            torch.nn.init.kaiming_normal_(weight, nonlinearity="relu")
        if weight is not None and weight.dim() == len(shape) + 1:
            weight.data = weight.data.to(memory_format=last)
    x = torch.randn(batch, *shape, generator=torch.Generator().manual_seed(1)).cuda().to(memory_format=last)
    return net.train(), x


@case("resnet50", "mobilenet_v3", "convnext_tiny", "yolo", "unet3d", "vae_decoder")
def gradients_by_layer(name):
    """One step under f16 autocast: every call of a forward pass and of a gradient, with the same arguments, beside f64."""
    import torch

    import polyconv.torch as face
    from polyconv.torch import _dispatch, _run

    net, x = net_of(name, batch=2 if name in ("unet3d", "yolo", "vae_decoder") else 4)
    rows, count = [], [0, 0]

    def far(a, b):
        if not bool(a.isfinite().all()):
            return float("inf")
        return float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-30))

    def used(before):
        return [t for t in face._plans.state.plans.values() if t.calls != before.get(id(t), 0) and t.plan is not None]

    real_forward, real_backward = _run.forward, _run.backward

    def forward(x, w, bias, *settings, **more):
        before = {id(t): t.calls for t in face._plans.state.plans.values()}
        result = real_forward(x, w, bias, *settings, **more)
        if type(result) is face._plans.Refused:
            return result
        count[0] += 1
        wide = [None if each is None else each.double() for each in (x, w, bias)]
        truth = _dispatch.original_forward(*wide, *settings)
        ours, theirs = far(result, truth), far(_dispatch.original_forward(x, w, bias if bias is None else bias.to(x.dtype), *settings), truth)
        rows.append((ours / max(theirs, 5e-4), ours, theirs, " + ".join(f"{t.problem.token()} by {t.plan.kernel}" for t in used(before))))
        return result

    def backward(grad, x, w, bias_sizes, *settings):
        before = {id(t): t.calls for t in face._plans.state.plans.values()}
        result = real_backward(grad, x, w, bias_sizes, *settings)
        if type(result) is face._plans.Refused:
            return result
        count[1] += 1
        truth = _dispatch.original_backward(grad.double(), x.double(), w.double(), bias_sizes, *settings)
        plain = _dispatch.original_backward(grad, x, w, bias_sizes, *settings)
        ran = used(before)
        for what, a, b, c in zip(("data", "weights", "bias"), result, plain, truth):
            if a is None:
                continue
            quantum = 6e-8 / float(c.abs().max().clamp(min=1e-30))  # f16's smallest step, of the largest value
            ours, theirs = far(a, c), far(b, c)
            token = " + ".join(f"{t.problem.token()} by {t.plan.kernel}" for t in ran if (t.direction == "bwd_d") == (what == "data"))
            rows.append((ours / max(theirs, 1e-3, quantum), ours, theirs, f"{what}: {token} (largest {float(c.abs().max()):.1e})"))
        return result

    _run.forward, _run.backward = forward, backward
    with face.enable():
        with half():
            loss = net(x).float().square().mean() * 1024
        loss.backward()
    rows.sort(reverse=True)
    text = "; ".join(f"{ratio:.1f} times PyTorch's ({ours:.1e} / {theirs:.1e}) {what}" for ratio, ours, theirs, what in rows[:4])
    return f"{'ok' if rows and rows[0][0] < 4 else 'WRONG'}: {count[0]} forward, {count[1]} backward; {text}"


@case("resnet50", "mobilenet_v3")
def whole_gradients(name):
    """The gradient of every parameter in f16, ours and PyTorch's, beside PyTorch's in f32: cosines."""
    import torch

    import polyconv.torch as face

    def step(on, dtype):
        net, x = net_of(name, batch=8)
        with face.enable() if on else contextlib.nullcontext():
            with half() if dtype == "f16" else contextlib.nullcontext():
                loss = net(x).float().square().mean() * 1024
            loss.backward()
        return torch.cat([each.grad.flatten() for each in net.parameters()]).double()

    truth = step(False, "f32")
    cosine = lambda a: float(torch.dot(a, truth) / (a.norm() * truth.norm()))  # noqa: E731
    theirs, ours, exact = step(False, "f16"), step(True, "f16"), step(True, "f32")
    return f"cosine with f32: PyTorch f16 {cosine(theirs):.5f}, ours f16 {cosine(ours):.5f}, ours f32 {cosine(exact):.7f}"


def as_row(name="resnet50"):
    import torch

    net, x = one.bench_net(1.0)

    def infer():
        with torch.no_grad(), half():
            return net(x)

    return net, x, infer


@case()
def autocast_packs_once(_):
    import polyconv.torch as face

    net, x, infer = as_row()
    exact = infer().float()
    said = []
    with face.enable():
        for _ in range(3):
            y = infer()
            info = face.cache_info()
            said.append(f"{info.times_packed} packed, {info.packed_bytes / 1e6:.0f} MB")
    return f"{verdict(y, exact)}; {'; '.join(said)}; {info.fallen_forward} left"


@case("as it was", "weights that change", "cache_clear", "under gradients")
def graph_packs(kind):
    """A graph of inference reads what was packed before; in-place renewal is seen; one with gradients packs in itself."""
    import torch

    import polyconv.torch as face

    net, x, infer = as_row()
    if kind == "under gradients":

        def infer():
            with half(False):
                return net(x)

    with face.enable():
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            infer()
        torch.cuda.synchronize()
        packed = face.cache_info().times_packed
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = infer()
        inside = face.cache_info().times_packed - packed
        if kind == "weights that change":
            with torch.no_grad():
                for each in net.parameters():
                    each.mul_(1.05)
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                infer()  # packs anew, where the graph reads
            torch.cuda.synchronize()
        if kind == "under gradients":
            with torch.no_grad():
                for each in net.parameters():
                    each.mul_(1.05)
        if kind == "cache_clear":
            face.cache_clear()
            gc.collect()
            torch.cuda.empty_cache()
            rubbish = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(64)]
            del rubbish
        graph.replay()
        torch.cuda.synchronize()
    exact = infer()
    return f"{verdict(y.detach(), exact.detach())}; {inside} packed within the capture"


@case("inference", "graph", "fused", "fused_graph")
def bench_rows(kind):
    """Times and memory of whole rows, resnet50 at batch 1 and 32, as whole_models.py measures them."""
    import subprocess

    command = [sys.executable, str(one.ROOT / "python/bench/whole_models.py"), "--models", "resnet50,mobilenet_v3", "--kinds", kind]
    command += ["--rounds", "20", "--turns", "3", "--seconds", "30"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=one.LIMIT - 2)
    rows = [line for line in done.stdout.splitlines() if "batch" in line and "|" not in line]
    return f"exit code {done.returncode}: " + " / ".join(rows) + ("" if done.returncode == 0 else done.stderr[-600:])


if __name__ == "__main__":
    main()
