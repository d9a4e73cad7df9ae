"""Whole networks through enable() and fuse() beside PyTorch: results, gradients, training, and the same bits in any batch."""
# SPDX-License-Identifier: Apache-2.0

import torch

import polyconv.torch as face
from checks import DEVICE, check, half, near, networks, pictures, prepared
from layer_errors import BOUND, checked_layers, told


def forward_of(make):
    def run():
        net, x = prepared(make).eval(), pictures(4)
        with torch.no_grad():
            theirs = net(x)
            face.cache_clear()
            with face.enable():
                far = near(net(x), theirs, 1e-3)
                with half():
                    near(net(x).float(), theirs, 5e-2)
                packed = face.cache_info().times_packed
                with half():
                    near(net(x).float(), theirs, 5e-2)
        info = face.cache_info()
        assert info.times_packed == packed, f"{info.times_packed - packed} weights packed anew in a second context of autocast"
        return f"differs by {far:.1e}, {info.fallen_forward} calls left to PyTorch"

    return run


def gradients_of(make):
    """Of f32 as a whole; of f16 layer by layer, since f16 scatters from layer to layer by more than a kernel's fault would show."""

    def gradients(on):
        net = prepared(make).eval()  # no dropout: both runs must draw nothing
        x = pictures(4, seed=1)
        if on:
            with face.enable():
                net(x).square().mean().backward()
        else:
            net(x).square().mean().backward()
        return torch.cat([each.grad.flatten() for each in net.parameters() if each.grad is not None])

    def run():
        theirs = gradients(False)
        face.cache_clear()
        far = near(gradients(True), theirs, 2e-2)
        info = face.cache_info()
        net = prepared(make).eval()
        with checked_layers(net) as rows, face.enable():
            with half():
                loss = net(pictures(4, 128)).float().square().mean() * 1024
            loss.backward()
        worst = max(rows)
        assert worst.ratio <= BOUND, "\n      ".join(told(rows))
        left = f"{info.fallen_forward}+{info.fallen_backward} calls left to PyTorch"
        return f"differs by {far:.1e}, {left}; f16: {len(rows)} results, the worst {worst}"

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


def optimizer_that_writes_through_data():
    """No version counter tells of it, and nobody looks at memory of the GPU: passes that train must not need either."""

    def train():
        torch.manual_seed(0)
        layer, x, values = torch.nn.Conv2d(16, 16, 3).to(DEVICE), torch.randn(2, 16, 12, 12, device=DEVICE), []
        for _ in range(6):
            layer.zero_grad()
            loss = (layer(x) - 1).square().mean()
            loss.backward()
            for each in layer.parameters():
                each.data.sub_(0.1 * each.grad)
            values.append(float(loss.detach()))
        return values

    theirs = train()
    with face.enable(math="strict"):
        ours = train()
    assert ours[-1] < ours[0] and max(abs(a - b) for a, b in zip(ours, theirs)) < 1e-4, (ours, theirs)


def batch_invariance():
    import torchvision

    net, x, kept = prepared(torchvision.models.resnet18).eval(), pictures(64, 96), []
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
    """fuse(), f32 and under autocast, on two streams."""

    def run():
        net, x = prepared(make).eval(), pictures(4)
        face.cache_clear()
        fused = face.fuse(net)
        with torch.no_grad():
            theirs = net(x)
            far = near(fused(x), theirs, 1e-3)
            with half():
                near(fused(x).float(), theirs, 5e-2)
                torch.cuda.synchronize()
                with torch.cuda.stream(torch.cuda.Stream()):
                    other = fused(x)
                torch.cuda.synchronize()
            near(other.float(), theirs, 5e-2)
        rows = [row for row in face.report(fused) if row.kernel not in ("PyTorch", "not fused")]
        whole = sum("fused: " in row.note for row in rows)
        return f"differs by {far:.1e}; {whole} of {len(rows)} sorts of layer fused, {face.cache_info().fallen_forward} calls left to PyTorch"

    return run


def run():
    for name, make in networks().items():
        check(f"{name} forward", forward_of(make))
        check(f"{name} gradients", gradients_of(make))
        check(f"{name} fused", fused_of(make))
    check("ten steps of resnet18, losses ours/theirs", losses)
    check("an optimizer that writes through .data", optimizer_that_writes_through_data)
    check("batch invariance", batch_invariance)
