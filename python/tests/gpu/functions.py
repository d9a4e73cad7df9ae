"""polyconv's own functions on tensors of CUDA: results, bad arguments, streams, and the time of a call on the host."""
# SPDX-License-Identifier: Apache-2.0

import math
import time

import torch

import polyconv
import polyconv.torch as face
from checks import DEVICE, Skip, captured, check, half, near, replayed, warm


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


def raw_weights():
    """Weights that are arrays are new in every call: where channels are last, no packed ones are made of them, also of weights changed since."""
    x = torch.randn(8, 256, 56, 56, device=DEVICE, dtype=torch.float16).contiguous(memory_format=torch.channels_last)
    w = (torch.randn(64, 256, 1, 1, device=DEVICE) / 16).half().contiguous(memory_format=torch.channels_last)
    exact = torch.nn.functional.conv2d(x.double(), w.double())
    polyconv.cache_clear()
    far = near(polyconv.conv(x, w).double(), exact, 2e-3)
    kept = polyconv.cache_info().bytes
    assert kept == 0, f"{kept} bytes of packed weights or workspace"
    far = max(far, near(polyconv.conv(x, w.mul_(-2)).double(), -2 * exact, 2e-3))
    return f"differs by {far:.1e}"


def little_is_kept():
    """Inference under autocast reads large weights raw and casts them in each call, as autocast does: nothing stays beside the parameters,
    also of a graph, and new weights are seen at once, by its replays too."""
    layer = torch.nn.Conv2d(256, 256, 3, padding=1).to(DEVICE).to(memory_format=torch.channels_last)
    x = torch.randn(8, 256, 28, 28, device=DEVICE).contiguous(memory_format=torch.channels_last)

    def work():
        with torch.no_grad(), half():
            return layer(x)

    face.cache_clear()
    with face.enable():
        warm(work)
        before = torch.cuda.memory_allocated()
        work()
        assert torch.cuda.memory_allocated() == before, "a call kept memory"
        assert face.cache_info().packed_bytes == 0, face.cache_info()
        (row,) = face.report()
        graph, y = captured(work)
        with torch.no_grad():
            layer.weight.mul_(-1.5)
        exact = torch.nn.functional.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=1)
        far = [near(each.double(), exact.detach(), 5e-3) for each in (work(), replayed(graph, y))]
    return f"differs by {max(far):.1e}, {row.kernel}"


def bad_arguments():
    x = torch.randn(1, 3, 8, 8, device=DEVICE)
    try:
        polyconv.conv(x, torch.randn(4, 3, 3, 3))
    except polyconv.InvalidArgument as error:
        assert "w is on the CPU and x on cuda:0" in str(error), error
    else:
        raise AssertionError("tensors on two devices were taken")


def two_gpus():
    """Weights on another GPU are refused in PyTorch's words, also where the same call ran on one before."""
    if torch.cuda.device_count() < 2:
        raise Skip("one GPU alone")
    x, layer = torch.randn(1, 3, 8, 8, device=DEVICE), torch.nn.Conv2d(3, 4, 3).to(DEVICE)
    with torch.no_grad(), face.enable():
        layer(x)
        try:
            layer.to("cuda:1")(x)
        except RuntimeError as error:
            assert "device" in str(error), error
        else:
            raise AssertionError("weights on another GPU were taken")


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


def another_stream():
    """stream= names one that PyTorch does not work on now: it waits for PyTorch's, and nobody gets its memory too early."""
    stream, w = torch.cuda.Stream(), torch.randn(64, 64, 3, 3, device=DEVICE)
    plan = polyconv.Plan("fwd:n8,c64,k64,i56x56,f3x3", device="cuda")
    far = 0.0
    for _ in range(5):
        x = torch.randn(8, 64, 56, 56, device=DEVICE)
        exact = torch.nn.functional.conv2d((x * 1.01**20).double(), w.double())
        for _ in range(20):
            x = x * 1.01
        results = [call(x.clone(), w.clone(), stream=stream.cuda_stream) for call in (polyconv.conv, plan.run)]
        torch.full((1 << 24,), float("nan"), device=DEVICE)
        torch.cuda.current_stream().wait_stream(stream)
        far = max(far, *(near(each.double(), exact, 1e-5) for each in results))
    with torch.cuda.stream(stream):  # and without stream= a plan works on the stream of its arrays
        x = torch.randn(8, 64, 56, 56, device=DEVICE)
        for _ in range(20):
            x = x * 1.01
        result, packed = plan.run(x, w), plan.run(x, plan.pack(w))
    torch.cuda.synchronize()
    exact = torch.nn.functional.conv2d(x.double(), w.double())
    return f"differs by {max(far, near(result.double(), exact, 1e-5), near(packed.double(), exact, 1e-5)):.1e}"


def call_overhead():
    x, w = torch.randn(1, 8, 8, 8, device=DEVICE), torch.nn.Parameter(torch.randn(8, 8, 3, 3, device=DEVICE))

    def host_time(autocast):
        best = math.inf
        with torch.autocast("cuda", torch.float16, enabled=autocast):
            for _ in range(10):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(100):
                    torch.nn.functional.conv2d(x, w)
                best = min(best, (time.perf_counter() - start) / 100 * 1e6)
        return best

    said = []
    with torch.no_grad():
        for autocast in (False, True):
            theirs = host_time(autocast)
            with face.enable():
                said.append(f"{'autocast' if autocast else 'f32'}: PyTorch {theirs:.1f} us, polyconv {host_time(autocast):.1f} us")
    return "a small call on the host, " + "; ".join(said)


def run():
    check("devices", devices)
    check("plain functions", plain_functions)
    check("raw weights", raw_weights)
    check("little is kept", little_is_kept)
    check("bad arguments", bad_arguments)
    check("two GPUs", two_gpus)
    check("side stream", side_stream)
    check("another stream than PyTorch's", another_stream)
    check("call overhead", call_overhead)
