"""polyconv.torch.fuse: one plan for a convolution and what follows it, held against the model that it was made from."""
# SPDX-License-Identifier: Apache-2.0

import copy
import operator
import pickle

import pytest

torch = pytest.importorskip("torch")

import polyconv  # noqa: E402
import polyconv.torch as face  # noqa: E402
from torch_models import alone  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional


def alive(model):
    """An eval model whose batch norms do something."""
    for norm in model.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            if norm.affine:
                norm.weight.data.uniform_(0.5, 1.5)
                norm.bias.data.normal_()
    return model.eval()


def same(model, x, scale=1e-5):
    """Fuses, compares, and gives back the fused model and the tokens that ran."""
    fused = face.fuse(model)
    with torch.no_grad():
        ours, theirs = fused(x), model(x)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
    assert (ours - theirs).abs().max() <= scale * max(1.0, float(theirs.abs().max()))
    return fused, [row.problem for row in face.report(fused) if row.calls]


class Bottleneck(nn.Module):
    """A block of ResNet, with everything that it has twice: two sums' worth of ways to go wrong."""

    def __init__(self, channels=8, down=True):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 6, 1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv3, self.bn3 = nn.Conv2d(6, channels, 1), nn.BatchNorm2d(channels, affine=False)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)) if down else nn.Identity()

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.down(x)
        return self.relu(y)


@pytest.mark.parametrize("down", [False, True])
def test_a_residual_block_is_a_plan_a_layer(down):
    model = alive(nn.Sequential(Bottleneck(down=down), Bottleneck(down=down)))
    for x in (torch.randn(2, 8, 9, 7), torch.randn(2, 8, 9, 7).contiguous(memory_format=torch.channels_last)):
        face.cache_clear()
        fused, tokens = same(model, x)
        assert not any(isinstance(each, (nn.BatchNorm2d, nn.ReLU)) for each in fused.modules())
        assert sum("bias+residual+relu" in token for token in tokens) == 1
        assert sum(row.calls for row in face.report()) == (8 if down else 6) and face.cache_info().fallen_forward == 0
    assert any(isinstance(each, nn.BatchNorm2d) for each in model.modules())  # the model itself is as it was


@pytest.mark.parametrize(
    "name, activation",
    [
        ("relu", nn.ReLU()),
        ("clip6", nn.ReLU6()),
        ("lrelu", nn.LeakyReLU(0.2)),
        ("tanh", nn.Tanh()),
        ("sigmoid", nn.Sigmoid()),
        ("gelu", nn.GELU()),
        ("silu", nn.SiLU()),
        ("hswish", nn.Hardswish()),
        ("elu", nn.ELU(0.5)),
        ("prelu", nn.PReLU(6)),
        ("prelu", nn.PReLU()),
        ("gelutanh", nn.GELU(approximate="tanh")),
    ],
)
def test_activations(name, activation):
    model = alive(nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Dropout(), activation))
    fused, (token,) = same(model, torch.randn(2, 4, 6, 6))
    assert name in token and len(list(fused.graph.nodes)) == 3


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dimensions_and_types(dims, transposed, dtype):
    conv = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dims}d")(4, 6, 3, stride=2, padding=1, groups=2)
    norm = getattr(nn, f"BatchNorm{dims}d")(6)
    model = alive(nn.Sequential(conv, norm, nn.ReLU())).to(dtype)
    x = torch.randn(2, 4, *[7] * dims).to(dtype)
    scale = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2}[dtype]
    with torch.no_grad():
        ours = face.fuse(model)(x)
        exact = copy.deepcopy(model).double()(x.double())
    assert ours.dtype == dtype and (ours - exact).abs().max() <= scale * exact.abs().max()
    (row,) = face.report()
    assert row.problem.endswith("bias+relu")


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_is_part_of_the_plan(mode):
    model = alive(nn.Sequential(nn.Conv2d(4, 6, (3, 4), padding="same", padding_mode=mode, dilation=(1, 2)), nn.ReLU()))
    _, (token,) = same(model, torch.randn(2, 4, 8, 9))
    assert (mode in token) == (mode != "zeros")
    x = torch.randn(4, 8, 9)  # one picture without a batch
    with torch.no_grad():
        assert (face.fuse(model)(x) - model(x[None])[0]).abs().max() < 1e-5


class Odd(nn.Module):
    """What must not be fused, or not so far."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.conv, self.bn, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()

    def forward(self, x):
        y = self.conv(x)
        if self.kind == "used twice":
            return self.relu(y) + y
        if self.kind == "broadcast":
            return y + x.mean((2, 3), keepdim=True)
        if self.kind == "a number":
            return y + 1.5
        if self.kind == "alpha":
            return torch.add(y, x, alpha=2)
        if self.kind == "norm behind a sum":
            return self.bn(y + x)
        if self.kind == "written in between":
            x = x * 1
            y = self.conv(x)
            x.add_(1)
            return self.relu(y + x)
        if self.kind == "adds to the other":
            z = x * 2
            z.add_(y)
            return z * z
        return F.hardtanh(self.bn(y), -2, 2)


@pytest.mark.parametrize(
    "kind, reason",
    [
        ("used twice", "is used 2 times"),
        ("broadcast", None),
        ("a number", "something else than two tensors"),
        ("alpha", "something else than two tensors"),
        ("norm behind a sum", "behind a sum"),
        ("written in between", "writes to memory in between"),
        ("adds to the other", "adds in place to another tensor"),
        ("another activation", None),
    ],
)
def test_what_is_not_fused_is_right_and_told(kind, reason):
    x = torch.randn(2, 4, 6, 6)
    fused, _ = same(alive(Odd(kind)), x)
    text = str(face.report(fused))
    assert (reason or "") in text and bool(reason) == bool(fused.polyconv_left)
    if kind == "broadcast":  # seen when it runs: a shape is nothing that a graph knows
        assert face.cache_info().fallen_forward == 1 and "a residual (2, 4, 1, 1)" in text


def test_models_that_cannot_be_traced_as_a_whole():
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Bottleneck()
            self.last = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            return self.last(self.block(x)) if x.sum() > 0 else self.block(x)

    model = alive(Looks())
    fused, tokens = same(model, torch.rand(2, 8, 6, 6))
    assert len(tokens) == 5 and fused.polyconv_left[0].what == "Looks"
    assert "not traced as a whole" in str(face.report(fused))


def test_a_layer_called_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

        def forward(self, x):
            return self.conv(self.bn(self.conv(x)).relu()).sigmoid()

    _, tokens = same(alive(Twice()), torch.randn(1, 4, 5, 5))
    assert len(tokens) == 2


def test_gradients_of_inputs_and_autocast():
    model, x = alive(nn.Sequential(Bottleneck(), nn.Conv2d(8, 3, 3))), torch.randn(2, 8, 6, 6, requires_grad=True)
    fused = face.fuse(model)
    ours, theirs = (torch.autograd.grad(net(x).square().sum(), x)[0] for net in (fused, model))
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max() and face.cache_info().plans == 0
    assert not any(each.requires_grad for each in fused.parameters())
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        half = fused(x)
        packed = face.cache_info().times_packed
        fused(x)
        assert face.cache_info().times_packed == packed and face.cache_info().fallen_forward == 0
        assert half.dtype == torch.bfloat16 and (half.float() - model(x).float()).abs().max() < 0.1 * half.abs().max()


def test_new_weights_are_seen():
    """The weights of a layer without a batch norm are the model's own."""
    model, x = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()).eval(), torch.randn(1, 4, 6, 6)
    fused, _ = same(model, x)
    with torch.no_grad():
        model[0].weight.mul_(-2)
        assert torch.allclose(fused(x), model(x), atol=1e-5)


def test_batch_invariance():
    model, x = alive(nn.Sequential(Bottleneck(), Bottleneck())), torch.randn(8, 8, 9, 9)
    fused = face.fuse(model)
    with torch.no_grad(), face.enable(deterministic=True):
        assert torch.equal(fused(x)[3:4], fused(x[3:4]))


def test_bad_arguments():
    with pytest.raises(polyconv.InvalidArgument, match="model is in training .the model., expected an eval model"):
        face.fuse(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train())
    with pytest.raises(polyconv.InvalidArgument, match="model is a builtin_function_or_method"):
        face.fuse(operator.add)
    fused = face.fuse(nn.Sequential(nn.Conv2d(3, 4, 3)).eval())
    with torch.no_grad(), pytest.raises(Exception):
        fused(torch.randn(1, 5, 8, 8))
    with torch.no_grad(), pytest.raises(TypeError, match="x is torch.float64, expected torch.float32"):
        fused(torch.randn(1, 3, 8, 8).double())


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="no torch.compile")
def test_compile():
    model, x = alive(nn.Sequential(Bottleneck())), torch.randn(2, 8, 6, 6)
    compiled = torch.compile(face.fuse(model), backend="aot_eager")
    with torch.no_grad(), face.enable():
        assert (compiled(x) - model(x)).abs().max() < 1e-4
        assert sum(row.calls for row in face.report()) >= 4


def tripled(module, arguments, result):
    return result * 3


@pytest.mark.parametrize("where", [0, 1, 2, None])
def test_hooks_go_on_working(where):
    """On a layer, its batch norm, its activation, and on the model itself."""
    net, x = alive(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())), torch.randn(1, 3, 8, 8)
    (net if where is None else net[where]).register_forward_hook(tripled)
    fused, _ = same(net, x)
    what = {0: "Conv2d", 1: "Conv2d", 2: "Conv2d + BatchNorm2d", None: "Conv2d + BatchNorm2d + ReLU"}[where]
    assert where == 0 or [each.parts for each in fused.modules() if hasattr(each, "parts")] == [what]


def test_hooks_of_what_is_fused_apart():
    """In a model that cannot be traced as a whole."""

    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.alone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), nn.Conv2d(4, 4, 1)

        def forward(self, x):
            y = self.body(x)
            return self.alone(y) if float(y.detach().sum()) != 0 else y

    net, x = Looks().eval(), torch.randn(1, 3, 8, 8)
    net.body.register_forward_hook(tripled)
    net.alone.register_forward_hook(tripled)
    fused, _ = same(net, x)
    assert ("alone", "has hooks, or a forward of its own (patch?)") in [(each.layer, each.reason) for each in fused.polyconv_left]


class Frozen(nn.BatchNorm2d):
    def forward(self, x):
        return x + 1


def test_batch_norms_of_other_classes():
    same(alive(nn.Sequential(nn.Conv2d(3, 4, 3), Frozen(4), nn.ReLU())), torch.randn(1, 3, 8, 8))


@pytest.mark.parametrize("act", [nn.ReLU6(), nn.GELU(), nn.LeakyReLU(0.2), nn.PReLU(4), nn.ELU(0.5), nn.Hardswish(), nn.SiLU()])
def test_pickles(act):
    net, x = alive(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), act)), torch.randn(1, 3, 8, 8)
    fused = face.fuse(net)
    again = pickle.loads(pickle.dumps(fused))
    with torch.no_grad():
        assert torch.equal(again(x), fused(x))
    wanted = x.clone().requires_grad_()  # by PyTorch's operators, one by one
    assert (again(wanted) - net(x)).abs().max() < 1e-5
