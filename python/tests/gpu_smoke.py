#!/usr/bin/env python3
"""For a machine with a GPU: is polyconv right on CUDA through PyTorch, and how fast and how large beside cuDNN?

    PYTHONPATH=build/python/python [POLYCONV_BACKEND_PATH=/abs/build/cuda/lib/polyconv] python3 python/tests/gpu_smoke.py

Prints one line a check, PASS, SKIP or FAIL, then times of whole models; exit code 1 where a check failed. --quick leaves the
times out; python/bench/whole_models.py has them in full. JAX and CuPy are checked where they are."""
# SPDX-License-Identifier: Apache-2.0

import math
import os
import statistics
import subprocess
import sys
import traceback

import torch

import polyconv
import polyconv.torch as face

DEVICE = torch.device("cuda:0")
failures = []


class Skip(Exception):
    """A check that cannot be made here, and why."""


def check(name, function):
    try:
        note = function()
        print(f"PASS  {name}{'' if note is None else ': ' + str(note)}", flush=True)
    except Skip as reason:
        print(f"SKIP  {name}: {reason}", flush=True)
    except Exception as error:
        failures.append(name)
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(f"FAIL  {name}: {type(error).__name__}: {error} ({where.name}:{where.lineno})", flush=True)


def distance(a, b):
    """The largest difference, of the size of the largest value."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-6))


def near(a, b, limit):
    assert a.shape == b.shape and a.dtype == b.dtype and a.device == b.device, (a.shape, b.shape, a.dtype, b.dtype)
    far = distance(a, b)
    assert far <= limit, f"differs by {far:.2e}, expected at most {limit:.0e}"
    return far


def devices():
    assert any(one.name.startswith("cuda") for one in polyconv.devices()), polyconv.backends()
    return ", ".join(one.name for one in polyconv.backends() if one.device_kind == "cuda" and one.available)


def plain_functions():
    for dtype, limit in ((torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        for memory in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(4, 32, 28, 30, device=DEVICE, dtype=dtype).contiguous(memory_format=memory)
            w = (torch.randn(48, 32, 3, 3, device=DEVICE) / 17).to(dtype)
            exact = torch.nn.functional.conv2d(x.double(), w.double(), padding=1)
            near(polyconv.conv(x, w, padding=1).double(), exact, limit)
            out = torch.empty_like(exact, dtype=dtype)
            assert polyconv.conv(x, w, padding=1, out=out) is out
            near(out.double(), exact, limit)
            grad = torch.randn_like(out)
            data = torch.nn.grad.conv2d_input(x.shape, w.double(), grad.double(), padding=1)
            near(polyconv.grad_input(grad, w, x.shape, padding=1).double(), data, limit)
            weights = torch.nn.grad.conv2d_weight(x.double(), w.shape, grad.double(), padding=1)
            near(polyconv.grad_weight(x, grad, w.shape, padding=1).double(), weights, 10 * limit)


def bad_arguments():
    x = torch.randn(1, 3, 8, 8, device=DEVICE)
    try:
        polyconv.conv(x, torch.randn(4, 3, 3, 3))
    except polyconv.InvalidArgument as error:
        assert "w is on the CPU and x on cuda:0" in str(error), error
    else:
        raise AssertionError("tensors on two devices were taken")


def side_stream():
    """Work enqueued on another stream is what a call there sees."""
    stream = torch.cuda.Stream()
    w = torch.randn(64, 64, 3, 3, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), face.enable(math="strict"):
        x = torch.randn(8, 64, 56, 56, device=DEVICE)
        for _ in range(20):
            x = x * 1.01
        ours, plain = torch.nn.functional.conv2d(x, w), polyconv.conv(x, w)
    torch.cuda.synchronize()
    exact = torch.nn.functional.conv2d(x.double(), w.double())
    near(ours.double(), exact, 1e-5)
    near(plain.double(), exact, 1e-5)


def models():
    import torchvision

    return {
        "resnet50": torchvision.models.resnet50,
        "mobilenet_v3_large": torchvision.models.mobilenet_v3_large,
        "convnext_tiny": torchvision.models.convnext_tiny,
    }


def prepared(make, memory=torch.channels_last):
    torch.manual_seed(0)
    return make().to(DEVICE).to(memory_format=memory)


def forward_of(make):
    def run():
        net, x = prepared(make).eval(), torch.randn(4, 3, 224, 224, device=DEVICE).contiguous(memory_format=torch.channels_last)
        torch.backends.cudnn.allow_tf32 = False
        with torch.no_grad():
            theirs = net(x)
            face.cache_clear()
            with face.enable():
                far = near(net(x), theirs, 1e-3)
                with torch.autocast("cuda", torch.float16):
                    half = net(x)
            near(half.float(), theirs, 5e-2)
        info = face.cache_info()
        return f"differs by {far:.1e}, {info.fallen_forward} calls left to PyTorch"

    return run


def training_of(make):
    def gradients(on):
        net = prepared(make)
        net.eval()  # no dropout: both runs must draw nothing
        x = torch.randn(4, 3, 224, 224, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(1))
        if on:
            with face.enable():
                net(x).square().mean().backward()
        else:
            net(x).square().mean().backward()
        return torch.cat([each.grad.flatten() for each in net.parameters() if each.grad is not None])

    def run():
        torch.backends.cudnn.allow_tf32 = False
        theirs = gradients(False)
        face.cache_clear()
        far = near(gradients(True), theirs, 2e-2)
        info = face.cache_info()
        return f"differs by {far:.1e}, {info.fallen_forward}+{info.fallen_backward} calls left to PyTorch"

    return run


def losses():
    import torchvision

    def train(on):
        torch.manual_seed(0)
        net = torchvision.models.resnet18(num_classes=10).to(DEVICE).to(memory_format=torch.channels_last)
        optimizer, values = torch.optim.SGD(net.parameters(), 0.01), []
        x, y = torch.randn(16, 3, 96, 96, device=DEVICE), torch.randint(10, (16,), device=DEVICE)
        for _ in range(10):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            values.append(float(loss))
        return values

    theirs = train(False)
    with face.enable():
        ours = train(True)
    assert max(abs(a - b) for a, b in zip(ours, theirs)) < 0.05 * theirs[0], (ours, theirs)
    return "  ".join(f"{a:.3f}/{b:.3f}" for a, b in zip(ours, theirs))


def batch_invariance():
    import torchvision

    net = prepared(torchvision.models.resnet18).eval()
    x = torch.randn(64, 3, 96, 96, device=DEVICE).contiguous(memory_format=torch.channels_last)
    kept = []
    hook = net.layer4.register_forward_hook(lambda _, __, result: kept.append(result))
    face.cache_clear()
    with torch.no_grad(), face.enable(deterministic=True):
        for size in (64, 4, 1):
            net(x[:size])
    hook.remove()
    notes = {row.note for row in face.report() if row.note}
    for size, one in zip((4, 1), kept[1:]):
        assert torch.equal(one, kept[0][:size]), f"batch {size} differs from 64; {notes}"
    return f"not invariant: {notes}" if notes else None


def fused_of(make):
    """fuse() of a model whose batch norms do something, f32 and f16, and in a CUDA graph."""

    def run():
        torch.backends.cudnn.allow_tf32 = False
        net = prepared(make)
        for norm in net.modules():
            if isinstance(norm, torch.nn.BatchNorm2d):
                norm.running_mean.normal_(0, 0.1)
                norm.running_var.uniform_(0.7, 1.5)
        net.eval()
        x = torch.randn(4, 3, 224, 224, device=DEVICE).contiguous(memory_format=torch.channels_last)
        face.cache_clear()
        fused = face.fuse(net)
        with torch.no_grad():
            theirs = net(x)
            far = near(fused(x), theirs, 1e-3)
            # Autocast's own cache of weights goes with its context, and a graph that read from it would replay on freed memory.
            with torch.autocast("cuda", torch.float16, cache_enabled=False):
                near(fused(x).float(), theirs, 5e-2)
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    fused(x)
                torch.cuda.synchronize()
                captured = torch.cuda.CUDAGraph()
                with torch.cuda.graph(captured):
                    y = fused(x)
            x.copy_(torch.randn_like(x))
            captured.replay()
            torch.cuda.synchronize()
            near(y.float(), net(x), 5e-2)
        rows = [row for row in face.report(fused) if row.kernel not in ("PyTorch", "not fused")]
        whole = sum("fused: " in row.note for row in rows)
        return f"differs by {far:.1e}; {whole} of {len(rows)} sorts of layer fused, {face.cache_info().fallen_forward} calls left to PyTorch"

    return run


def jax_on_cuda():
    """In a process of its own: JAX takes most of the GPU's memory for itself."""
    program = """
import numpy
try:
    import jax
    assert jax.default_backend() == 'gpu', jax.devices()
except Exception as error:
    print('SKIP', error); raise SystemExit
from jax import lax, numpy as jnp
import polyconv.jax as face
from polyconv.jax import _call
worst = 0
for layout, shape, w, groups in (
    (('NCHW', 'OIHW', 'NCHW'), (4, 32, 28, 28), (48, 32, 3, 3), 1),
    (('NHWC', 'HWIO', 'NHWC'), (4, 28, 28, 32), (3, 3, 32, 48), 1),
    (('NHWC', 'HWIO', 'NHWC'), (4, 28, 28, 32), (3, 3, 1, 32), 32),
):
    for dtype, limit in (('float32', 1e-5), ('float16', 4e-3), ('bfloat16', 3e-2)):
        x = jax.random.normal(jax.random.PRNGKey(0), shape).astype(dtype)
        w_ = (jax.random.normal(jax.random.PRNGKey(1), w) / 17).astype(dtype)
        settings = dict(window_strides=(1, 1), padding='SAME', dimension_numbers=layout, feature_group_count=groups)
        f32 = lambda array: array.astype('float32')
        def ours(x, w): return face.conv_general_dilated(x, w, precision='highest', **settings)
        def exact(x, w): return lax.conv_general_dilated(f32(x), f32(w), precision='highest', **settings)
        g = jax.random.normal(jax.random.PRNGKey(2), exact(x, w_).shape).astype(dtype)
        y, back = jax.vjp(jax.jit(ours), x, w_)
        y2, back2 = jax.vjp(exact, x, w_)
        for a, b in zip((y, *back(g)), (y2, *back2(f32(g)))):
            far = float(abs(f32(a) - f32(b)).max() / abs(f32(b)).max())
            assert far < limit * 4, (layout, dtype, far)
            worst = max(worst, far / limit)
# a chain of steps without anything between them: streams are respected
x = jax.random.normal(jax.random.PRNGKey(0), (8, 64, 56, 56)); w = jax.random.normal(jax.random.PRNGKey(1), (64, 64, 3, 3)) / 24
def chain(conv):
    def run(x):
        for _ in range(8): x = jnp.tanh(conv(x * 1.5, w, (1, 1), 'SAME', precision='highest'))
        return x
    return jax.jit(run)
far = float(abs(chain(face.conv_general_dilated)(x) - chain(lax.conv_general_dilated)(x)).max())
assert far < 1e-3, far
rows = [row for row in face.report() if row.platform == 'cuda']
left = [row for row in rows if row.kernel == 'jax.lax']
assert len(left) < len(rows) / 2, left  # without libpolyconv_xla.so all of them are: the package was built without jaxlib
print(f'jax {jax.__version__}: worst {worst:.2f} of its limit, a chain differs by {far:.1e}; {len(rows)} sorts of call, {len(left)} left to jax.lax', *[row.note[:160] for row in left], sep='; ')
"""
    environment = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=500, env=environment)
    if done.stdout.startswith("SKIP"):
        raise Skip(done.stdout[5:].strip()[:200])
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.strip()


def cupy_arrays():
    try:
        import cupy
    except ImportError:
        raise Skip("no CuPy") from None
    x = cupy.random.default_rng(0).standard_normal((4, 32, 28, 28), dtype=cupy.float32)
    w = cupy.random.default_rng(1).standard_normal((48, 32, 3, 3), dtype=cupy.float32)
    expected = polyconv.conv(cupy.asnumpy(x), cupy.asnumpy(w), padding=1)
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(20):
            x = x * 1.0
        y = polyconv.conv(x, w, padding=1)
        assert isinstance(y, cupy.ndarray)
        far = float(abs(cupy.asnumpy(y) - expected).max() / abs(expected).max())
    assert far < 1e-5, far
    picture = cupy.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=cupy.uint8)
    blurred = polyconv.filter(picture, cupy.full((3, 3), 1 / 9, dtype=cupy.float32))
    host = polyconv.filter(cupy.asnumpy(picture), torch.full((3, 3), 1 / 9).numpy())
    assert int(abs(cupy.asnumpy(blurred).astype(int) - host.astype(int)).max()) <= 1
    return f"CuPy {cupy.__version__}: differs from the CPU by {far:.1e}"


def graph():
    """A captured forward pass replays, on new inputs; no synchronisation is inside, as capture would fail."""
    import torchvision

    net = prepared(torchvision.models.resnet18).eval().half()
    x = torch.randn(8, 3, 96, 96, device=DEVICE, dtype=torch.half).contiguous(memory_format=torch.channels_last)
    with torch.no_grad(), face.enable():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            net(x)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            y = net(x)
        x.copy_(torch.randn_like(x))
        captured.replay()
        torch.cuda.synchronize()
        return f"differs by {near(y, net(x), 1e-2):.1e}"


def graph_of_training():
    """Weights that change between replays are seen: packing is part of the graph."""
    layer = torch.nn.Conv2d(64, 64, 3, padding=1).to(DEVICE).half()
    x = torch.randn(8, 64, 32, 32, device=DEVICE, dtype=torch.half)
    with face.enable():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            layer(x)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            y = layer(x)
        with torch.no_grad():
            layer.weight.mul_(-3)
        captured.replay()
        torch.cuda.synchronize()
    return f"differs by {near(y, layer(x), 1e-2):.1e}"


def timed(function, rounds):
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def in_graph(function):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        function()
    return captured.replay


def measured(function, on):
    """Milliseconds and the peak of memory in MB, with polyconv or without."""
    torch.cuda.reset_peak_memory_stats()
    if on:
        with face.enable():
            ms = timed(function, 15)
    else:
        ms = timed(function, 15)
    return ms, torch.cuda.max_memory_allocated() / 1e6


def time_models():
    torch.backends.cudnn.benchmark = True
    ratios = []
    print(f"\n{torch.cuda.get_device_name()}; ms and peak MB: PyTorch (cudnn.benchmark) / polyconv; f16 autocast, channels last")
    for name, make in models().items():
        for batch in (1, 32):
            net = prepared(make)
            x = torch.randn(batch, 3, 224, 224, device=DEVICE).contiguous(memory_format=torch.channels_last)

            def infer():
                with torch.no_grad(), torch.autocast("cuda", torch.float16):
                    return net(x)

            def train():
                net.zero_grad()
                with torch.autocast("cuda", torch.float16):
                    loss = net(x).float().square().mean()
                loss.backward()

            for kind, work, mode in (("inference", infer, False), ("inference, graph", infer, True), ("training", train, False)):
                if kind == "training" and batch == 1:
                    continue  # batch norm of one value
                net.train(kind == "training")
                try:
                    results = []
                    for on in (False, True, False, True):  # A B A B
                        function = work
                        if mode:
                            if on:
                                with face.enable():
                                    function = in_graph(work)
                            else:
                                function = in_graph(work)
                        results.append(measured(function, on))
                except Exception as error:
                    failures.append(name)
                    print(f"FAIL  {name} {kind} batch {batch}: {type(error).__name__}: {error}")
                    continue
                theirs, ours = min(results[0], results[2]), min(results[1], results[3])
                ratios.append(theirs[0] / ours[0])
                print(
                    f"{name:20} {kind:17} batch {batch:3}  {theirs[0]:8.3f} / {ours[0]:8.3f} ms = {ratios[-1]:.3f}   "
                    f"{theirs[1]:7.0f} / {ours[1]:7.0f} MB",
                    flush=True,
                )
            face.cache_clear()
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, least {min(ratios):.3f}")


def call_overhead():
    import time

    x, w = torch.randn(1, 8, 8, 8, device=DEVICE), torch.randn(8, 8, 3, 3, device=DEVICE)

    def host_time():
        best = math.inf
        for _ in range(10):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                torch.nn.functional.conv2d(x, w)
            best = min(best, (time.perf_counter() - start) / 100 * 1e6)
        return best

    with torch.no_grad():
        theirs = host_time()
        with face.enable():
            ours = host_time()
    return f"a small call on the host: PyTorch {theirs:.1f} us, polyconv {ours:.1f} us"


def main():
    check("devices", devices)
    check("plain functions", plain_functions)
    check("bad arguments", bad_arguments)
    check("side stream", side_stream)
    for name, make in models().items():
        check(f"{name} forward", forward_of(make))
        check(f"{name} gradients", training_of(make))
    check("ten steps of resnet18, losses ours/theirs", losses)
    check("batch invariance", batch_invariance)
    check("CUDA graph, inference", graph)
    check("CUDA graph, weights that change", graph_of_training)
    for name, make in models().items():
        check(f"{name} fused", fused_of(make))
    check("JAX", jax_on_cuda)
    check("CuPy", cupy_arrays)
    check("call overhead", call_overhead)
    if "--quick" not in sys.argv:
        time_models()
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
