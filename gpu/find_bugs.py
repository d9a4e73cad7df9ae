#!/usr/bin/env python3
"""Which of several suspects gives NaN or an illegal memory access on CUDA? Each runs in a process of its own.

    PYTHONPATH=build/python/python POLYCONV_BACKEND_PATH=/abs/build/cuda/lib/polyconv python3 gpu/find_bugs.py [CASE...]

A line a case: ok, or what went wrong; names that begin with "plain" use PyTorch alone."""
# SPDX-License-Identifier: Apache-2.0

import concurrent.futures
import contextlib
import gc
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "bench"))
LIMIT = 30  # seconds a case, with what importing takes
CASES = {}


def case(*arguments):
    def add(function):
        for one in arguments or (None,):
            CASES[function.__name__ + ("" if one is None else f":{one}")] = (function, one)
        return function

    return add


def both(function):
    return case("mobilenet_v3_large", "convnext_tiny")(function)


def net_of(name):
    import torch
    import torchvision

    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    net = getattr(torchvision.models, name)().cuda().to(memory_format=torch.channels_last)
    for norm in net.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.7, 1.5)
    x = torch.randn(4, 3, 224, 224, device="cuda").contiguous(memory_format=torch.channels_last)
    return net.eval(), x


def fused_of(name):
    import polyconv.torch as face

    face._plans.state.fuse_on_cuda = True
    net, x = net_of(name)
    return net, face.fuse(net), x


def verdict(y, exact, limit=5e-2):
    y, exact = y.double(), exact.double()
    if not bool(y.isfinite().all()):
        return f"NaN or infinite: {int((~y.isfinite()).sum())} of {y.numel()}"
    far = float((y - exact).abs().max() / exact.abs().max())
    return f"{'ok' if far <= limit else 'WRONG'}, differs by {far:.1e}"


def half(cache=True):
    import torch

    return torch.autocast("cuda", torch.float16, cache_enabled=cache)


def as_smoke(net, run, x, cache):
    """What gpu_smoke.py did: one autocast around the eager runs and the capture, which ends before the replay."""
    import torch

    with torch.no_grad():
        said = []
        with half(cache):
            said.append("eager " + verdict(run(x), net(x)))
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                y = run(x)
            torch.cuda.synchronize()
            said.append("other stream " + verdict(y, net(x)))
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                y = run(x)
            captured.replay()
            torch.cuda.synchronize()
            said.append("replay in autocast " + verdict(y, net(x)))
        captured.replay()
        torch.cuda.synchronize()
        said.append("replay after it " + verdict(y, net(x)))
        x.copy_(torch.randn_like(x))
        captured.replay()
        torch.cuda.synchronize()
        said.append("new input " + verdict(y, net(x)))
    return "; ".join(said)


@both
def plain_graph_as_smoke(name):
    net, x = net_of(name)
    return as_smoke(net, net, x, True)


@both
def plain_graph_without_autocasts_cache(name):
    net, x = net_of(name)
    return as_smoke(net, net, x, False)


@both
def fused_graph_as_smoke(name):
    net, fused, x = fused_of(name)
    return as_smoke(net, fused, x, True)


@both
def fused_graph_without_autocasts_cache(name):
    net, fused, x = fused_of(name)
    return as_smoke(net, fused, x, False)


@both
def enabled_graph_without_autocasts_cache(name):
    import polyconv.torch as face

    net, x = net_of(name)
    with face.enable():
        return as_smoke(net, net, x, False)


@both
def fused_layers(name):
    """Each fused layer beside PyTorch's operators, eager and in a graph: the first that differs, and its plan alone."""
    import torch

    import polyconv
    import polyconv.torch as face
    from polyconv.torch import _fused

    net, fused, x = fused_of(name)
    kept = []
    for path, layer in fused.named_modules():
        if isinstance(layer, _fused.FusedConv):

            def run(x, residual=None, layer=layer, path=path):
                before = {id(one): one.calls for one in face._plans.state.plans.values()}
                y = type(layer).forward(layer, x, residual)
                taken = [one for one in face._plans.state.plans.values() if one.calls != before.get(id(one), 0)]
                kept.append((path, layer, x, residual, y, taken[-1] if taken else None))
                return y

            layer.forward = run
    said = []

    def look(where):
        worst = (0.0, "")
        for path, layer, x, residual, y, taken in kept:
            with half(False), torch.no_grad():
                exact = layer.one_by_one(x, residual)
            text = verdict(y, exact, 2e-2)
            of = "PyTorch" if taken is None or taken.plan is None else f"{taken.problem.token()} by {taken.plan.kernel}"
            if not text.startswith("ok"):
                said.append(f"{where}: FIRST {path}: {text}; {of}; input finite {bool(x.isfinite().all())}")
                if taken is not None and taken.plan is not None:
                    said.append(alone(layer, x, residual, exact, taken, polyconv, torch))
                return
            worst = max(worst, (float(text.rsplit(" ", 1)[1]), f"{path} {of}"))
        said.append(f"{where}: {len(kept)} layers ok, worst {worst}")

    with torch.no_grad(), half(False):
        fused(x)
        torch.cuda.synchronize()
        look("eager")
        kept.clear()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            fused(x)
        for turn in ("first replay", "second replay"):
            captured.replay()
            torch.cuda.synchronize()
            look(turn)
    return "; ".join(said)


def alone(layer, x, residual, exact, taken, polyconv, torch):
    """The layer's problem by polyconv.Plan, packed weights and all made here."""
    plan = polyconv.Plan(taken.problem.token(), "cuda:0", dynamic_weights=True)
    dtype = exact.dtype
    bias = None if layer.bias is None else layer.bias.float()
    out = torch.empty_strided(tuple(exact.shape), taken.out_strides, dtype=dtype, device="cuda")
    more = {} if residual is None else {"residual": residual}
    torch.cuda.synchronize()
    plan.run(x.to(dtype), layer.weight.to(dtype), bias, out=out, **more)
    torch.cuda.synchronize()
    return f"by Plan alone ({plan.kernel}): {verdict(out, exact, 2e-2)}"


def bench_net(width=0.25):
    import torch
    from models import MODELS

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    net = MODELS["resnet50"][0](width).cuda().eval()
    for each in net.modules():
        weight = getattr(each, "weight", None)
        if weight is not None and weight.dim() > 1:
            torch.nn.init.kaiming_normal_(weight, nonlinearity="relu")
        if weight is not None and weight.dim() == 4:
            weight.data = weight.data.to(memory_format=torch.channels_last)
    return net, torch.randn(1, 3, 64, 64, device="cuda").contiguous(memory_format=torch.channels_last)


def inferring(net, x):
    import torch

    def infer():
        with torch.no_grad(), half():
            return net(x)

    return infer


def replay_of(work, stream=None):
    """As whole_models.py captured: its replay holds the graph and the result, and not the model."""
    import torch

    on = torch.cuda.Stream() if stream is None else stream
    with torch.cuda.stream(on):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = work()

    def replay():
        graph.replay()
        return result

    return replay


def peak_rounds(work):
    import torch

    for _ in range(3):
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        result = work()
    torch.cuda.synchronize()
    return result


@case()
def plain_graph_of_a_freed_model(_):
    net, x = bench_net()
    exact = inferring(net, x)().float()
    work = inferring(net, x)
    del net
    work = replay_of(work)  # nobody holds the model now
    return verdict(peak_rounds(work), exact)


@case()
def plain_graph_of_a_kept_model(_):
    net, x = bench_net()
    exact = inferring(net, x)().float()
    return verdict(peak_rounds(replay_of(inferring(net, x))), exact)


@case()
def enabled_graph_of_a_kept_model(_):
    import polyconv.torch as face

    net, x = bench_net()
    exact = inferring(net, x)().float()
    with face.enable():
        return verdict(peak_rounds(replay_of(inferring(net, x))), exact)


@case("half", "autocast")
def enabled_graph_on_the_stream_of_the_packs_then_cache_clear(kind):
    """A capture on the stream of the warm-up finds packed weights, which cache_clear() drops under the graph."""
    import torch

    import polyconv.torch as face

    net, x = bench_net()
    if kind == "half":
        net, x = net.half(), x.half()

    def infer():
        with torch.no_grad(), half() if kind == "autocast" else contextlib.nullcontext():
            return net(x)

    exact = infer().float()
    with face.enable():
        work = replay_of(infer, torch.cuda.Stream())
        work()
        torch.cuda.synchronize()
        first = verdict(work(), exact)
        face.cache_clear()
        gc.collect()
        torch.cuda.empty_cache()
        other = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(64)]
        second = verdict(work(), exact)
        torch.cuda.synchronize()
        del other
    return f"before {first}; after {second}"


@case()
def enabled_training_steps(_):
    import torch

    import polyconv.torch as face

    def steps(on):
        net, x = bench_net()
        net.train()
        x = torch.cat([x, x * 0.5])
        optimizer, losses = torch.optim.SGD(net.parameters(), 1e-6), []
        with face.enable() if on else contextlib.nullcontext():
            for _ in range(4):
                optimizer.zero_grad()
                with half():
                    loss = net(x).float().square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        grads = torch.cat([each.grad.flatten() for each in net.parameters()])
        return torch.stack(losses), grads

    theirs, ours = steps(False), steps(True)
    return f"losses {verdict(ours[0], theirs[0])}; gradients {verdict(ours[1], theirs[1], 1.0)}"


@case()
def enabled_inference_then_cache_clear(_):
    """Rows of whole_models.py: another model after cache_clear() and empty_cache()."""
    import torch

    import polyconv.torch as face

    said = []
    for batch in (1, 2, 1):
        face.cache_clear()
        net, x = bench_net()
        x = x.expand(batch, -1, -1, -1).contiguous(memory_format=torch.channels_last)
        exact = inferring(net, x)().float()
        with face.enable():
            said.append(verdict(peak_rounds(inferring(net, x)), exact))
    return "; ".join(said)


@case("graph", "fused", "fused_graph", "training")
def bench_quick(kind):
    """whole_models.py as it is in this tree."""
    command = [sys.executable, str(ROOT / "python/bench/whole_models.py"), "--quick", "--models", "resnet50,mobilenet_v3", "--kinds", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT - 2)
    rows = [line for line in done.stdout.splitlines() if "batch" in line and "|" not in line]
    return f"exit code {done.returncode}: " + " / ".join(rows) + ("" if done.returncode == 0 else done.stderr[-600:])


def child(name):
    function, argument = CASES[name]
    print("SAYS", function(argument), flush=True)


def run_one(name):
    begin = time.monotonic()
    try:
        done = subprocess.run([sys.executable, __file__, "--child", name], capture_output=True, text=True, timeout=LIMIT)
        said = [line[5:] for line in done.stdout.splitlines() if line.startswith("SAYS ")]
        text = said[-1] if said else f"DIED ({done.returncode}): " + " | ".join(done.stderr.strip().splitlines()[-3:])[-700:]
    except subprocess.TimeoutExpired:
        text = f"TOO SLOW: {LIMIT} s were over"
    print(f"{name} [{time.monotonic() - begin:.0f} s]: {text}", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2])
    names = [name for name in CASES if not sys.argv[1:] or any(name.startswith(each) for each in sys.argv[1:])]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(run_one, names))


if __name__ == "__main__":
    main()
