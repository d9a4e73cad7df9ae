"""The models of python/bench/models.py, whole but on small pictures, through fuse() and enable(), where memory that nobody has written
is full of NaN: every number is finite, and near PyTorch's in strict f32."""
# SPDX-License-Identifier: Apache-2.0

import contextlib

import torch

import polyconv.torch as face
from checks import DEVICE, captured, check, half, near, replayed, warm
from layer_errors import BOUND, checked_layers, told
from models import MODELS

SMALL = {1: 32, 3: 128, 4: 16}  # size of a picture by channels of the input: volumes, pictures, latents


def poison():
    """Fills what PyTorch's allocator keeps free with NaN, so that who reads what nobody wrote gets them."""
    torch.cuda.synchronize()
    kept = [torch.full((size // 4,), float("nan"), device=DEVICE) for size in (1 << 30, *[1 << 26] * 8, *[1 << 20] * 64, *[1 << 12] * 256)]
    torch.cuda.synchronize()
    del kept


class Case:
    """One model in eval, with an input of two."""

    def __init__(self, name):
        make, shape, _, _ = MODELS[name]
        torch.manual_seed(0)
        torch.backends.cudnn.allow_tf32 = False
        self.memory = torch.channels_last_3d if len(shape) == 4 else torch.channels_last
        net = make(1.0).to(DEVICE)
        for each in net.modules():
            weight = getattr(each, "weight", None)
            if weight is not None and weight.dim() > 1:
                torch.nn.init.kaiming_normal_(weight, nonlinearity="relu")
            if weight is not None and weight.dim() == len(shape) + 1:
                weight.data = weight.data.contiguous(memory_format=self.memory)
            if isinstance(each, torch.nn.modules.batchnorm._BatchNorm):
                each.running_mean.normal_(0, 0.1)
                each.running_var.uniform_(0.7, 1.5)
        self.net = net.eval()
        self.shape = (shape[0], *[SMALL[shape[0]]] * (len(shape) - 1))
        self.x = self.input(1)
        face.cache_clear()

    def input(self, seed):
        x = torch.randn(2, *self.shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        return x.contiguous(memory_format=self.memory)

    def limit(self, exact, context):
        """How far a result may be: f16 scatters from layer to layer, so twice as far as PyTorch's own."""
        with torch.no_grad(), context():
            far = near(self.net(self.x).float(), exact, float("inf"))
        return max(1e-2 if context is half else 1e-3, 2 * far)

    def hold(self, result, exact, limit):
        assert bool(result.isfinite().all()), f"{int((~result.isfinite()).sum())} of {result.numel()} numbers are not finite"
        return near(result.float(), exact, limit)


def inference_of(name, fused, context):
    """In a run, in one more on memory of NaN, and in a CUDA graph that is replayed on another input."""

    def run():
        case = Case(name)
        other = case.input(5)
        with torch.no_grad():
            exact, exact_of_other = case.net(case.x), case.net(other)
        limit = case.limit(exact, context)
        net = face.fuse(case.net) if fused else case.net
        on = contextlib.nullcontext if fused else face.enable

        def work():
            with torch.no_grad(), context():
                return net(case.x)

        try:
            with on():
                poison()
                first = work()
                poison()
                second = work()
                far = [case.hold(each, exact, limit) for each in (first, second)]
                assert torch.equal(first, second), "two runs differ in their bits"
                warm(work)
                graph, y = captured(work)
                case.x.copy_(other)
                poison()
                far.append(case.hold(replayed(graph, y), exact_of_other, 2 * limit))
        except AssertionError as error:
            with checked_layers(net) as rows, on():
                work()
            raise AssertionError("\n      ".join([str(error), *told(rows)])) from error
        return f"differs by {max(far):.1e}, limit {limit:.0e}, {face.cache_info().fallen_forward} calls left to PyTorch"

    return run


def training_of(name):
    """Each layer's gradients under autocast beside f64."""

    def run():
        case = Case(name)
        poison()
        with checked_layers(case.net) as rows, face.enable():
            with half():
                loss = case.net(case.x).float().square().mean()
            loss.backward()
        worst, info = max(rows), face.cache_info()
        assert worst.ratio <= BOUND, "\n      ".join(told(rows))
        return f"{len(rows)} results, the worst {worst}; {info.fallen_forward}+{info.fallen_backward} calls left to PyTorch"

    return run


def run(*names):
    for name in names or MODELS:
        for what, context in (("f16 autocast", half), ("f32", contextlib.nullcontext)):
            check(f"{name}, fused, {what}", inference_of(name, True, context))
            check(f"{name}, {what}", inference_of(name, False, context))
        check(f"{name}, a training step layer by layer", training_of(name))
