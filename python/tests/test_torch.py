"""polyconv.torch: unchanged models forward and backward, held against PyTorch itself."""
# SPDX-License-Identifier: Apache-2.0

import gc
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

import polyconv  # noqa: E402
import polyconv.torch as face  # noqa: E402

nn, F = torch.nn, torch.nn.functional
NEW = hasattr(torch.ops.aten.convolution_backward.default, "redispatch")


@pytest.fixture(autouse=True)
def alone():
    face.cache_clear()
    torch.manual_seed(0)
    yield
    face.disable()
    face.cache_clear()


def model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8, padding=1, padding_mode="reflect"),
        nn.Conv2d(8, 16, 1, stride=2, bias=False),
        nn.ConvTranspose2d(16, 4, 3, stride=2, output_padding=1),
    )


def step(net, x):
    """Output and every gradient of one training step."""
    net.zero_grad()
    x = x.detach().requires_grad_()
    y = net(x)
    y.square().mean().backward()
    return [y.detach(), x.grad] + [each.grad.clone() for each in net.parameters()]


def close(ours, theirs, scale=1e-5):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert (a - b).abs().max() <= scale * max(1.0, float(b.abs().max()))


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


def random_layer(generator):
    """A small layer in double, and an input; every dimension, groups, strides, dilations, transposed or not."""

    def pick(*choices):
        return choices[int(torch.randint(len(choices), (1,), generator=generator))]

    dims, groups, transposed = pick(1, 2, 3), pick(1, 2), pick(False, True)
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dims}d")
    settings = dict(stride=pick(1, 2), dilation=pick(1, 2), groups=groups, bias=pick(False, True))
    taps = tuple(pick(1, 2, 3) for _ in range(dims))
    if not transposed:
        settings.update(padding_mode=pick("zeros", "zeros", "zeros", "replicate", "circular"))
    padding = tuple(pick(0, 1) if size > 1 else 0 for size in taps)
    layer = kind(2 * pick(1, 2) if groups == 2 else pick(1, 2), 2, taps, padding=padding, **settings).double()
    inputs = torch.randn(pick(1, 2), layer.in_channels, *[5] * dims, dtype=torch.float64, generator=generator)
    return layer, inputs.requires_grad_()


def test_gradcheck():
    """Numerical derivatives of 200 random layers in double, of every tenth also those of the derivatives."""
    generator = torch.Generator().manual_seed(1)
    functional = torch.nn.utils.stateless.functional_call if not hasattr(torch, "func") else torch.func.functional_call
    with face.enable():
        for number in range(200):
            layer, x = random_layer(generator)
            names = [name for name, _ in layer.named_parameters()]

            def run(x, *parameters):
                return functional(layer, dict(zip(names, parameters)), (x,))

            inputs = (x, *[each.detach().clone().requires_grad_() for each in layer.parameters()])
            # The fast mode holds one random direction of each derivative against its difference quotient.
            assert torch.autograd.gradcheck(run, inputs, fast_mode=True), layer
            if number % 10 == 0:
                assert torch.autograd.gradcheck(run, inputs), layer
                assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True), layer
    assert face.cache_info().fallen_forward == face.cache_info().fallen_backward == 0
    assert face.cache_info().plans > 300


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


def test_only_what_is_wanted():
    layer = nn.Conv2d(3, 4, 3)
    layer.weight.requires_grad_(False)
    x = torch.randn(1, 3, 8, 8)
    with face.enable():
        layer(x).sum().backward()
        directions = {row.problem.split(":")[0] for row in face.report()}
    assert directions == {"fwd"}  # the bias's gradient is a sum alone
    assert torch.equal(layer.bias.grad, torch.full((4,), 36.0))


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


@pytest.mark.skipif(not NEW, reason="PyTorch before 2.0 has no way past an override of the gradient")
def test_gradients_that_are_not_taken():
    from polyconv.torch import _dispatch

    x, w = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    arguments = (torch.randn(1, 4, 6, 6), x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    theirs = torch.ops.aten.convolution_backward(*arguments)
    with face.enable():
        close(_dispatch.original_backward(*arguments), theirs)
        assert face.cache_info().plans == 0


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


def test_threads():
    net, xs = model().eval(), [torch.randn(2, 3, 12, 12) for _ in range(6)]
    wrong = []
    with torch.no_grad():
        wanted = [net(x) for x in xs]

        def work(i):
            with torch.no_grad():
                for _ in range(10):
                    if (net(xs[i]) - wanted[i]).abs().max() > 1e-5:
                        wrong.append(i)

        with face.enable():
            threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert not wrong


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


def _train_in_processes(rank, folder, on):
    """One of two processes that train a model together; leaves its parameters in a file."""
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet_{on}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(model())
    if on:
        face.enable()
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(2, 3, 12, 12, generator=generator)).square().mean().backward()
        optimizer.step()
    if on:
        assert face.cache_info().fallen_forward == 0 and any(row.calls for row in face.report())
    torch.save([each.detach() for each in net.parameters()], f"{folder}/{rank}_{on}")
    distributed.destroy_process_group()


def test_two_processes_train_one_model(tmp_path):
    """DistributedDataParallel over gloo: gradients are reduced as without polyconv, and both ranks have the same weights."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    for on in (False, True):
        torch.multiprocessing.spawn(_train_in_processes, (str(tmp_path), on), nprocs=2)
    theirs, ours, other = (torch.load(tmp_path / name) for name in ("0_False", "0_True", "1_True"))
    close(ours, theirs)
    assert all(torch.equal(a, b) for a, b in zip(ours, other))


def test_forked_loaders():
    """Workers of a DataLoader are forks of a process that has threads of ours; they go on convolving."""
    layer = nn.Conv2d(3, 8, 3)

    class Filtered(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            with torch.no_grad():
                return layer(torch.full((1, 3, 16, 16), float(i)))[0]

    with face.enable():
        wanted = [Filtered()[i] for i in range(6)]
        loader = torch.utils.data.DataLoader(Filtered(), batch_size=1, num_workers=2, multiprocessing_context="fork")
        for one, want in zip(loader, wanted):
            assert torch.allclose(one[0], want, atol=1e-5)


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
