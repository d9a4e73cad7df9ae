"""polyconv.torch under autocast: parameters are cast and packed once, however many contexts come, and everything else is as
autocast has it."""
# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

import polyconv.torch as face  # noqa: E402
from torch_models import alone, close, model, of_rounded  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))


def half():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def infer(net, x):
    with torch.no_grad(), half():
        return net(x)


def every_sort():
    """A layer of each function that autocast knows, 'same' padding with as much on either side and with more at the end among them."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Conv2d(8, 8, 3, padding="same", dilation=2),
        nn.Conv2d(8, 8, (3, 4), padding="same", groups=2, bias=False),
        nn.Conv2d(8, 8, 3, padding="valid", stride=2),
        nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1),
        nn.Flatten(2),
        nn.Conv1d(4, 6, 3),
        nn.ConvTranspose1d(6, 4, 2, stride=2),
        nn.Unflatten(2, (2, 2, -1)),
        nn.Conv3d(4, 6, 2, padding=1),
        nn.ConvTranspose3d(6, 2, 3),
    ).eval()


@pytest.mark.parametrize("how", ["enable", "patch", "fuse"])
def test_each_context_finds_what_the_first_packed(how):
    net, x = every_sort() if how == "enable" else model().eval(), torch.randn(2, 3, 12, 12)
    theirs = infer(net, x)
    context = face.enable() if how == "enable" else None
    used = {"enable": lambda net: net, "patch": face.patch, "fuse": face.fuse}[how](net)
    ours = infer(used, x)
    assert ours.dtype == torch.bfloat16 and ours.stride() == theirs.stride()
    close([ours.float()], [theirs.float()], 5e-2)
    first = face.cache_info()
    assert torch.equal(infer(used, x), ours)
    second = face.cache_info()
    layers = sum(hasattr(each, "stride") for each in net)
    assert second.times_packed == first.times_packed and second.misses == first.misses == layers
    assert second.fallen_forward == 0 and second.hits - first.hits == layers
    if context is not None:
        names = {row.layer for row in face.report(net)}
        assert names == {name for name, each in net.named_children() if hasattr(each, "stride")}  # the parameters themselves came
        face.disable()
        assert torch.equal(infer(net, x), theirs)  # autocast's own again


def test_new_weights_are_cast_and_packed_anew():
    layer, x = nn.Conv2d(16, 16, 3), torch.randn(1, 16, 12, 12)
    with face.enable():
        for change in (lambda w: w.mul_(-2), lambda w: w.data.mul_(3), lambda w: setattr(w, "data", torch.ones_like(w))):
            infer(layer, x)
            with torch.no_grad():
                change(layer.weight)
            close([infer(layer, x).float()], [of_rounded(layer, x, torch.bfloat16)], 1e-2)
        layer.double()
        with pytest.raises(RuntimeError):
            infer(layer, x)


def test_inference_mode_keeps_what_it_makes():
    net, x = model().eval(), torch.randn(2, 3, 12, 12)
    with face.enable(), torch.inference_mode(), half():
        first = net(x)
        packed = face.cache_info().times_packed
        assert torch.equal(net(x), first) and face.cache_info().times_packed == packed


def test_gradients_are_those_of_autocast():
    net, x = every_sort().train(), torch.randn(2, 3, 12, 12)

    def gradients():
        net.zero_grad()
        with half():
            loss = net(x).float().square().mean()
        loss.backward()
        return [each.grad.clone() for each in net.parameters()]

    theirs = gradients()
    with face.enable():
        ours = gradients()
        assert all(":bf16" in row.problem for row in face.report())
    close(ours, theirs, 3e-2)


@pytest.mark.skipif(not hasattr(torch.ops.aten.convolution_backward.default, "redispatch"), reason="PyTorch before 2.0")
def test_each_layer_is_as_near_as_pytorchs():
    """Every result and gradient of a step, beside f64 and PyTorch's own bf16: what python/tests/gpu does with whole networks."""
    from layer_errors import checked_layers

    net, x = model(), torch.randn(2, 3, 12, 12)
    with checked_layers() as rows, face.enable():
        with half():
            loss = net(x).float().square().mean()
        loss.backward()
    assert len(rows) == 4 * 3 - 1 + 3  # three biases; the picture wants no gradient
    assert max(rows).ratio < 2 and all("bf16" in row.what or "a sum" in row.what for row in rows), str(max(rows))
    with checked_layers() as rows, face.enable():
        infer(net, x)
    assert len(rows) == 4 and max(rows).ratio < 2, str(max(rows))


def test_a_picture_without_a_batch():
    layer, x = nn.Conv2d(3, 4, 3), torch.randn(3, 8, 8)
    theirs = infer(layer, x)
    with face.enable():
        close([infer(layer, x).float()], [theirs.float()], 2e-2)
    assert face.cache_info().fallen_forward == 0


@pytest.mark.parametrize(
    "bad",
    [
        lambda x, w: F.conv2d(x[0, 0], w),
        lambda x, w: F.conv1d(x[0], w),
        lambda x, w: F.conv2d(x, w, padding="same", stride=2),
        lambda x, w: F.conv2d(x, w, groups=2),
        lambda x, w: F.conv_transpose3d(x, w),
        lambda x, w: F.conv2d(x.long(), w.long(), padding="full"),
    ],
)
def test_errors_are_pytorchs_own(bad):
    x, w = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    with half(), pytest.raises(Exception) as theirs:
        bad(x, w)
    with half(), face.enable(), pytest.raises(type(theirs.value)) as ours:
        bad(x, w)
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]


def test_traces_and_transforms_see_pytorchs_own():
    """What records calls or batches them sees an operator of PyTorch's, and not the tensor that polyconv made."""
    layer, x = nn.Conv2d(3, 4, 3).eval(), torch.randn(1, 3, 8, 8)
    for each in layer.parameters():
        each.requires_grad_(False)
    with face.enable(), torch.no_grad(), half():
        traced = torch.jit.trace(layer, x, check_trace=False)
        other = torch.randn(1, 3, 8, 8)
        close([traced(other).float()], [layer(other).float()], 2e-2)
        if hasattr(torch, "func"):
            weights = torch.randn(2, 4, 3, 3, 3)
            several = torch.func.vmap(lambda w: F.conv2d(x, w))(weights)
            close([several[1].float()], [F.conv2d(x, weights[1]).float()], 3e-2)
        if hasattr(torch, "compile"):
            compiled = torch.compile(layer, backend="aot_eager")
            close([compiled(other).float()], [layer(other).float()], 2e-2)
