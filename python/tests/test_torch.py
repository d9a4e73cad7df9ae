"""polyconv.torch: unchanged models forward and backward, held against PyTorch itself."""
# SPDX-License-Identifier: Apache-2.0

import copy
import gc
import io
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import polyconv  # noqa: E402
import polyconv.torch as face  # noqa: E402
from torch_models import alone, close, model, step  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional


def test_training_step_of_an_unchanged_model():
    net, x = model(), torch.randn(2, 3, 12, 12)
    theirs = step(net, x)
    with face.enable():
        assert face.is_enabled()
        close(step(net, x), theirs)
        info = face.cache_info()
        assert info.fallen_forward == info.fallen_backward == 0
        assert sum(row.calls for row in face.report()) == 12  # four layers: forward, and two gradients each
    assert not face.is_enabled()
    step(net, x)
    assert sum(row.calls for row in face.report()) == 12  # PyTorch's own again


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dimensions_and_types(dims, transposed, dtype):
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dims}d")
    layer = kind(4, 6, 3, stride=2, padding=1, dilation=1, groups=2).to(dtype)
    x = torch.randn(2, 4, *[7] * dims).to(dtype)
    with face.enable():
        ours = step(layer, x)
        assert all(row.kernel != "PyTorch" for row in face.report())
    exact = step(layer.double(), x.double())
    scale = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2}[dtype]
    close([each.double() for each in ours], exact, scale)


def test_memory_formats():
    net = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=8)).to(memory_format=torch.channels_last)
    for x in (torch.randn(2, 4, 9, 8).contiguous(memory_format=torch.channels_last), torch.randn(2, 4, 9, 8)):
        theirs, net_out = step(net, x), net(x)
        with face.enable():
            close(step(net, x), theirs)
            assert net(x).stride() == net_out.stride()  # compiled graphs count on PyTorch's own
    expanded = torch.randn(1, 4, 1, 8).expand(2, 4, 9, 8)
    theirs = net(expanded)
    with face.enable():
        close([net(expanded).detach(), net(expanded.flip(3)).detach()], [theirs.detach(), net(expanded.flip(3)).detach()])


def test_weights_that_change_are_packed_anew():
    layer, x = nn.Conv2d(16, 16, 3, padding=1), torch.randn(1, 16, 12, 12)
    with torch.no_grad():
        with face.enable():
            layer(x)
            packed = face.cache_info().times_packed
            layer(x)
            assert face.cache_info().times_packed == packed  # the same weights: nothing to do
            layer.weight.mul_(-2)
            ours = layer(x)
            assert face.cache_info().times_packed == packed + bool(packed)
            layer.weight.data = torch.ones_like(layer.weight)  # other memory under the same parameter
            ones = layer(x)
            layer.weight.data.mul_(3)  # past the version counter, as averages of weights are swapped in
            threes = layer(x)
        close([threes], [layer(x)])
        layer.weight.fill_(1)
        close([ones], [layer(x)])
        assert not torch.equal(ours, ones)


def test_packed_weights_go_with_their_tensor():
    with torch.no_grad(), face.enable():
        layer = nn.Conv2d(16, 16, 3)
        layer(torch.randn(1, 16, 12, 12))
        assert face.cache_info().packed_tensors == 1
        del layer
        gc.collect()
        assert face.cache_info().packed_tensors == 0
        face.cache_limit(3)
        for size in range(8, 16):
            nn.Conv2d(3, 4, 3)(torch.randn(1, 3, size, size))
        assert face.cache_info().plans == 3 and face.cache_info().evicted >= 5
        face.cache_limit()


def test_bytes_of_packed_weights_are_bounded():
    """What would go beyond is packed in each call; what is dropped frees its share."""
    layers, x = [nn.Conv2d(16, 16, 3) for _ in range(3)], torch.randn(1, 16, 12, 12)
    with torch.no_grad(), face.enable():
        theirs = [layer(x) for layer in layers]
        size = face.cache_info().packed_bytes // 3
        try:
            face.cache_limit(packed_bytes=2 * size)
            assert face.cache_info().packed_bytes == 0  # all of it would have been too much
            for turn in range(2):
                before = face.cache_info().times_packed
                close([layer(x) for layer in layers], theirs)
                assert face.cache_info().times_packed == before + (1 if turn else 3)
            assert face.cache_info().packed_bytes == 2 * size
            layers.pop(0)
            gc.collect()
            layers[1](x)
            before = face.cache_info().times_packed
            layers[1](x)
            assert face.cache_info().times_packed == before and face.cache_info().packed_bytes == 2 * size
            for wrong in (dict(plans=0), dict(packed_bytes=-1), dict(plans="many"), dict(packed_bytes=1.5)):
                with pytest.raises(polyconv.InvalidArgument, match="expected a whole number, at least"):
                    face.cache_limit(**wrong)
        finally:
            face.cache_limit()


def test_empty_tensors_and_expanded_weights():
    """As PyTorch does it: no bias behind a sum over nothing, and gradients of 0."""
    for layer, x in ((nn.Conv2d(0, 4, 3), torch.rand(2, 0, 8, 8)), (nn.Conv2d(3, 4, 3), torch.rand(0, 3, 8, 8))):
        theirs = step(layer, x)
        with face.enable():
            for a, b in zip(step(layer, x), theirs):
                assert a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    face.cache_clear()
    x, w = torch.randn(2, 3, 8, 8, requires_grad=True), torch.randn(4, 1, 1, 1, requires_grad=True)
    theirs = torch.autograd.grad(F.conv2d(x, w.expand(4, 3, 3, 3)).square().sum(), (x, w))
    with face.enable():
        ours = torch.autograd.grad(F.conv2d(x, w.expand(4, 3, 3, 3)).square().sum(), (x, w))
    close(ours, theirs)
    assert face.cache_info().fallen_forward == face.cache_info().fallen_backward == 0


def test_what_is_not_taken_goes_to_pytorch():
    x, w = torch.arange(32).reshape(1, 2, 4, 4), torch.ones(3, 2, 3, 3, dtype=torch.int64)
    theirs = F.conv2d(x, w)
    with face.enable():
        assert torch.equal(F.conv2d(x, w), theirs)
    assert face.cache_info().fallen_forward == 1
    (row,) = face.report()
    assert row.kernel == "PyTorch" and row.calls == 1 and "int64" in row.note and "conv2d" in row.problem


@pytest.mark.parametrize(
    "x, w, settings",
    [
        ((1, 3, 8, 8), (4, 2, 3, 3), {}),
        ((1, 3, 8, 8), (4, 3, 9, 9), {}),
        ((1, 3, 8, 8), (4, 3, 3, 3), dict(stride=0)),
        ((1, 4, 8, 8), (3, 2, 3, 3), dict(groups=2)),
        ((1, 3, 8, 8), (4, 3, 3, 3), dict(bias=torch.ones(3))),
    ],
)
def test_bad_calls_are_refused_in_pytorchs_words(x, w, settings):
    x, w = torch.randn(x), torch.randn(w)
    with pytest.raises(Exception) as theirs:
        F.conv2d(x, w, **settings)
    with face.enable(), pytest.raises(type(theirs.value)) as ours:
        F.conv2d(x, w, **settings)
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]
    assert all(row.kernel == "PyTorch" for row in face.report())


def test_no_grad_inference_mode_and_autocast():
    net, x = model().eval(), torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        theirs = net(x)
    with face.enable():
        with torch.no_grad():
            close([net(x)], [theirs])
        with torch.inference_mode():
            close([net(x)], [theirs])
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            half = net(x)
        close([half.float()], [theirs], 5e-2)
        assert any(":bf16" in row.problem for row in face.report())


def test_deterministic():
    """The same image in a batch of 1, 4 and 16 has the same bits; report() names what can't promise it."""
    net, x = model().eval(), torch.randn(16, 3, 12, 12)
    with torch.no_grad(), face.enable(deterministic=True):
        whole = net(x)
        for size in (1, 4):
            for first in range(0, 16, size):
                assert torch.equal(net(x[first : first + size]), whole[first : first + size])
        assert all(not row.note for row in face.report())
    face.cache_clear()
    with face.enable(deterministic=True):
        step(net, x)
        notes = {row.problem.split(":")[0].lstrip("t"): row.note for row in face.report()}
        assert "batch" in notes["bwd_w"] and not notes["fwd"] and not notes["bwd_d"]


def test_report_names_layers():
    net = model()
    with face.enable(), torch.no_grad():
        net(torch.randn(1, 3, 12, 12))
    report = face.report(net)
    assert {row.layer for row in report} == {"0", "3", "4", "5"}
    text = str(report)
    assert "threads/" in text and "4 calls on polyconv, 0 left to PyTorch" in text


def test_training_makes_the_same_losses():
    def losses():
        torch.manual_seed(3)
        net, loss = model(), []
        optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
        x = torch.randn(4, 3, 12, 12)
        for _ in range(10):
            optimizer.zero_grad()
            value = (net(x) - 1).square().mean()
            value.backward()
            optimizer.step()
            loss.append(value.item())
        return loss

    theirs = losses()
    with face.enable():
        ours = losses()
    assert ours[-1] < ours[0] and max(abs(a - b) for a, b in zip(ours, theirs)) < 1e-4


def test_enable_nests():
    with face.enable(deterministic=True):
        with face.enable(math="fast"):
            pass
        assert face.is_enabled() and face._dispatch.state.deterministic and face._dispatch.state.math is None
    assert not face.is_enabled()
    with pytest.raises(polyconv.InvalidArgument, match="math is 'best'"):
        face.enable(math="best")
    assert not face.is_enabled()


def test_patch():
    """One model alone, with everything that its layers may say; and back."""
    net = nn.Sequential(
        model(),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular", groups=2),
        nn.ConvTranspose2d(4, 2, 2, stride=2),
    )
    x, other = torch.randn(2, 3, 12, 12), nn.Conv2d(3, 4, 3)
    theirs = step(net, x)
    assert face.patch(net) is net
    close(step(net, x), theirs)
    other(x)
    calls = sum(row.calls for row in face.report())
    assert calls == 3 * 7 and face.cache_info().fallen_forward == 0  # seven layers, three directions; not the other
    layer = face.patch(nn.Conv2d(2, 2, 3)).double()
    assert torch.autograd.gradgradcheck(layer, torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True))
    assert layer(torch.randn(2, 5, 5, dtype=torch.float64)).shape == (2, 3, 3)
    face.unpatch(net)
    face.cache_clear()
    close(step(net, x), theirs)
    assert not face.report()


def test_compile():
    """Fake tensors see PyTorch's own shapes and strides, and the compiled graph calls polyconv."""
    if not hasattr(torch, "compile"):
        pytest.skip(f"PyTorch {torch.__version__} has no torch.compile")
    net, x = model(), torch.randn(2, 3, 12, 12)
    theirs = step(net, x)
    with face.enable(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(net, backend="aot_eager")
        close(step(compiled, x), theirs)
        assert sum(row.calls for row in face.report()) >= 12


def test_arrays_of_torch_in_the_plain_functions():
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    result = polyconv.conv(x, w, padding=1)
    assert type(result) is torch.Tensor
    close([result], [F.conv2d(x, w, padding=1)])
    last = x.contiguous(memory_format=torch.channels_last)
    assert polyconv.conv(last, w).is_contiguous(memory_format=torch.channels_last)
    out = torch.empty(2, 4, 8, 8)
    assert polyconv.conv(x, w.numpy(), padding=1, out=out) is out
    half = polyconv.conv(x.bfloat16(), w.bfloat16(), torch.zeros(4).bfloat16())
    assert half.dtype == torch.bfloat16
    with pytest.raises(polyconv.InvalidArgument, match="w is a tensor that requires grad"):
        polyconv.conv(x, w.requires_grad_())
    with pytest.raises(polyconv.InvalidArgument, match="x is on device meta"):
        polyconv.conv(x.to("meta"), w)


def test_what_is_no_model_and_no_setting():
    for function in (face.patch, face.unpatch, face.fuse, face.report):
        with pytest.raises(polyconv.InvalidArgument, match="model is a int, expected a torch.nn.Module"):
            function(3)
    for setting, words in (({"deterministic": "yes"}, "True or False"), ({"math": 2}, "strict"), ({"math": "best"}, "strict")):
        with pytest.raises(polyconv.InvalidArgument, match=words):
            face.enable(**setting)
    assert not face.is_enabled()


class Doubled(nn.Conv2d):
    """A layer that is more than its class says."""

    def forward(self, x):
        return super().forward(x) * 2


def test_copies_of_a_patched_model_have_their_own_weights():
    """As an average of weights in training has: a deep copy, whose weights change alone."""
    net, x = face.patch(model()).eval(), torch.randn(2, 3, 12, 12)
    stream = io.BytesIO()
    pickle.dump(net, stream)
    stream.seek(0)
    for other in (copy.deepcopy(net), pickle.load(stream)):
        with torch.no_grad():
            close([other(x)], [net(x)])
            for each in other.parameters():
                each.zero_()
            assert float(other(x).abs().max()) == 0 != float(net(x).abs().max())
            assert face.report()
            face.unpatch(other)(x)


def test_patched_layers_of_other_classes():
    layer, x = Doubled(3, 4, 3), torch.randn(1, 3, 8, 8)
    theirs = layer(x)
    close([face.patch(layer)(x)], [theirs])
    assert len(face.report()) == 1
    own = nn.Conv2d(3, 4, 3)
    own.forward = lambda x: x
    assert face.unpatch(face.patch(own))(x) is x
