"""The quick way of polyconv.torch: calls that look like earlier ones are found and run without Python (python/src/torch/), and what
looks alike but is not, is seen."""
# SPDX-License-Identifier: Apache-2.0

import pytest

torch = pytest.importorskip("torch")

import polyconv.torch as face  # noqa: E402
from polyconv import _core  # noqa: E402
from polyconv.torch import _autocast, _native, _patch, _run  # noqa: E402
from torch_models import alone, close, model, step  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional


@pytest.fixture
def asked(monkeypatch):
    """Names of what was asked of Python, as it comes."""
    said = []

    def noting(name, function):
        return lambda *arguments: said.append(name) or function(*arguments)

    for name in ("decide_forward", "decide_backward", "packed", "cast", "not_taken"):
        module = _native._kept if name in ("packed", "cast") else _run
        _core.torch_hand_over({name: noting(name, getattr(module, name))})
    monkeypatch.setattr(_autocast._Override, "conv", noting("conv", _autocast._Override.conv))
    yield said
    for name in ("decide_forward", "decide_backward", "packed", "cast", "not_taken"):
        _core.torch_hand_over({name: getattr(_native._kept if name in ("packed", "cast") else _run, name)})


def test_a_second_step_asks_nobody(asked):
    net, x = model(), torch.randn(2, 3, 12, 12)
    with face.enable():
        first = step(net, x)
        assert {"decide_forward", "decide_backward"} <= set(asked)
        asked.clear()
        close(step(net, x), first)
    assert not asked
    assert sum(row.calls for row in face.report()) == 24 and face.cache_info().hits == 12


def test_a_patched_layer_without_gradients_is_run_as_it_is(asked, monkeypatch):
    """Past autograd's custom functions, which take longer than small layers."""
    net, x = face.patch(model()).eval(), torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        first = net(x)
        asked.clear()
        monkeypatch.setattr(_patch.Convolution, "apply", None)
        assert torch.equal(net(x), first)
    assert not asked


@pytest.mark.parametrize("settings", [{}, {"padding": 1}, {"stride": 2, "padding": 1}, {"groups": 2, "bias": False}])
def test_a_second_call_under_autocast_asks_nobody(asked, settings):
    """PyTorch leaves out the last arguments where they are what the function has by default."""
    layer, x = nn.Conv2d(16, 16, 3, **settings), torch.randn(2, 16, 9, 9).bfloat16()
    with face.enable(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        first = layer(x)
        asked.clear()
        assert torch.equal(layer(x), first)
    assert not asked


def test_a_bias_is_what_it_was_before_autocast_rounded_it():
    """In training too: kernels take it in f32. Of bfloat16 it would be 1, and the sum of both layers 0."""
    net = nn.Sequential(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1))
    with torch.no_grad():
        for layer, bias in zip(net, (0.0, 1 + 2.0**-10)):
            layer.weight.copy_(torch.eye(4).reshape(4, 4, 1, 1))
            layer.bias.fill_(bias)
    for _ in range(2):
        with face.enable(), torch.autocast("cpu", torch.bfloat16):
            y = net(torch.full((1, 4, 3, 3), -1.0))
        y.sum().backward()
        assert torch.equal(y, torch.full_like(y, 2.0**-10)) and y.grad_fn is not None
        with torch.no_grad(), face.enable(), torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(net(torch.full((1, 4, 3, 3), -1.0)), y)
    close([net[1].bias.grad], [torch.full((4,), 18.0)])


def test_what_decides_about_plans_is_seen(asked):
    layer, x, threads = nn.Conv2d(16, 16, 3), torch.randn(2, 16, 9, 9), torch.get_num_threads()
    with torch.no_grad(), face.enable():
        theirs = layer(x)
        changes = (
            lambda: face.enable(deterministic=True),
            lambda: face.enable(math="fast"),
            lambda: torch.set_num_threads(threads + 1),
            lambda: layer.to(memory_format=torch.channels_last),
            lambda: layer.double(),
        )
        try:
            for change in changes:
                change()
                asked.clear()
                close([layer(x.to(layer.weight.dtype)).float()], [theirs])
                assert "decide_forward" in asked
        finally:
            torch.set_num_threads(threads)


def test_weights_of_inference_mode_have_no_version():
    with torch.inference_mode(), face.enable():
        layer, x = nn.Conv2d(16, 16, 3), torch.randn(1, 16, 12, 12)
        ours = layer(x)
        assert torch.equal(layer(x), ours)
        layer.weight.mul_(2)
        layer.bias.mul_(2)
        close([layer(x)], [2 * ours])


def test_other_weights_in_the_same_place():
    """A layer goes and another comes, often where the first one was."""
    x = torch.randn(1, 16, 12, 12)
    with torch.no_grad():
        for _ in range(20):
            layer = nn.Conv2d(16, 16, 3)
            theirs = layer(x)
            with face.enable():
                close([layer(x), layer(x)], [theirs, theirs])
            del layer


def test_what_was_used_last_stays():
    layers, x = [nn.Conv2d(3, 4, size) for size in (1, 2, 3)], torch.randn(1, 3, 9, 9)
    with torch.no_grad(), face.enable():
        try:
            face.cache_limit(2)
            for number in (0, 1, 0, 0, 2):
                layers[number](x)
            misses = face.cache_info().misses
            layers[0](x)
            assert face.cache_info().misses == misses and face.cache_info().evicted == 1
            layers[1](x)
            assert face.cache_info().misses == misses + 1
        finally:
            face.cache_limit()


@pytest.mark.parametrize("table", [None, 4096])
def test_without_pytorchs_table_of_functions(table):
    """As before PyTorch 2.10: tensors by their attributes, and results by PyTorch's own function."""
    net, x = model(), torch.randn(2, 3, 12, 12)
    theirs = step(net, x)
    _core.torch_hand_over({"exchange": table, "empty_on_cpu": None})
    try:
        with face.enable():
            for _ in range(2):
                close(step(net, x), theirs)
            with torch.no_grad(), pytest.raises(RuntimeError):
                net[0](torch.randn(2, 3, 12, 12).to_sparse())
        assert face.cache_info().fallen_backward == 0
    finally:
        _native.hand_over(face._dispatch._left, face._dispatch._left_backward)


def test_errors_leave_nothing_behind(asked):
    layer, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8)
    with face.enable(), torch.no_grad():
        for _ in range(2):
            with pytest.raises(RuntimeError):
                layer(torch.randn(1, 2, 8, 8))
        with pytest.raises(RuntimeError):
            F.conv2d(x, layer.weight, stride=(1, -(2**40)))
        close([layer(x)], [F.conv2d(x.double(), layer.weight.double(), layer.bias.double()).float()])


def test_what_is_handed_over_has_a_name():
    with pytest.raises(Exception, match="'speed' is nothing that the quick way asks for"):
        _core.torch_hand_over({"speed": 1})
