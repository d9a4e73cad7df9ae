"""What a CUDA graph reads of what polyconv.torch keeps, with a stand-in for the question whether a capture goes on: the same calls
on a GPU are in gpu/graphs.py."""
# SPDX-License-Identifier: Apache-2.0

import gc

import pytest

torch = pytest.importorskip("torch")

import polyconv.torch as face  # noqa: E402
from polyconv.torch import _kept, _plans  # noqa: E402
from torch_models import alone  # noqa: E402, F401

nn = torch.nn
WARM, CAPTURE = 0, 7  # streams


@pytest.fixture
def layer(monkeypatch):
    """A layer that has run, its plan, and a switch between runs and a capture."""
    made, x = nn.Conv2d(16, 16, 3), torch.randn(1, 16, 12, 12)
    with torch.no_grad(), face.enable():
        made(x)
    (made.taken,) = _plans.state.plans.values()
    made.capturing = False
    monkeypatch.setattr(_kept, "_capturing", lambda _: made.capturing)
    yield made
    _plans.state.in_graphs.clear()


def pack(layer, stream=WARM):
    with torch.no_grad():
        return _kept.packed(layer.taken, layer.weight, -1, stream)


def test_a_graph_reads_what_was_packed_before_whatever_the_stream(layer):
    before, times = pack(layer), face.cache_info().times_packed
    layer.capturing = True
    assert pack(layer, CAPTURE) is before and face.cache_info().times_packed == times


def test_it_stays_when_the_cache_is_cleared_and_goes_with_the_weights(layer):
    layer.capturing = True
    before = pack(layer, CAPTURE)
    face.cache_clear()
    gc.collect()
    ((reference, held),) = _plans.state.in_graphs.values()
    assert [one for _, one in held] == [before] and reference() is layer.weight
    layer.taken = None
    layer.weight = None
    gc.collect()
    assert not _plans.state.in_graphs


def test_new_weights_are_packed_where_the_graph_reads(layer):
    layer.capturing = True
    before = pack(layer, CAPTURE)
    layer.capturing = False
    with torch.no_grad():
        layer.weight.mul_(2)
    assert pack(layer) is before and before.version == _kept.version_of(layer.weight, layer.taken.span)


def test_weights_that_a_graph_changed_are_seen_after_cache_clear(layer):
    """A replay that trains changes no version counter."""
    layer.capturing = True
    before, version = pack(layer, CAPTURE), layer.weight._version
    layer.capturing = False
    times = face.cache_info().times_packed
    pack(layer)
    assert face.cache_info().times_packed == times
    face.cache_clear()
    pack(layer)
    assert layer.weight._version == version and face.cache_info().times_packed == 2  # for the run, and where the graph reads
    assert before.version is not None


def test_new_weights_reach_graphs_of_other_streams(layer):
    layer.capturing = True
    before = pack(layer, CAPTURE)
    layer.capturing = False
    face.cache_clear()  # a run on another stream would find nothing of its own either
    with torch.no_grad():
        layer.weight.mul_(2)
    assert pack(layer) is not before and before.version == _kept.version_of(layer.weight, layer.taken.span)


def test_weights_that_nobody_packed_are_packed_within_the_capture(layer):
    with torch.no_grad():
        layer.weight.mul_(2)
    layer.capturing = True
    made = pack(layer)
    assert made is not pack(layer)  # memory of the graph's own is not kept
    assert not _plans.state.in_graphs


def test_passes_that_train_on_cuda_pack_for_themselves(layer):
    """Optimizers may write past the version counter, and on CUDA nobody looks at numbers."""
    forward, data = _plans.FORWARD, _plans.BACKWARD_DATA
    assert _plans.trains(layer.weight, forward, 0)
    assert not _plans.trains(layer.weight, forward, -1)
    assert not _plans.trains(layer.weight.detach(), forward, 0)
    with torch.no_grad():
        assert not _plans.trains(layer.weight, forward, 0)
        assert _plans.trains(layer.weight, data, 0)
    assert _plans.options_for(0, torch.float16, data, False, True)["new_weights"]
    assert "new_weights" not in _plans.options_for(0, torch.float16, data, False, False)


def test_a_bias_in_another_type_is_kept_likewise(layer):
    with torch.no_grad():
        bias = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        wide = _kept.cast(bias, torch.float32, 4, -1, WARM).value
        layer.capturing = True
        assert _kept.cast(bias, torch.float32, 4, -1, CAPTURE).value is wide
        layer.capturing = False
        assert _kept.cast(bias, torch.float32, 4, -1, WARM).value is wide
        bias.data.mul_(2)
        assert torch.equal(_kept.cast(bias, torch.float32, 4, -1, WARM).value, torch.full((4,), 2.0))


def test_large_layers_on_cuda_keep_nothing(layer):
    """Packing adds next to nothing to them, and what is kept is memory that plain PyTorch does not need."""
    assert _kept.packs_anew(estimate_us=500, packed_bytes=5 << 20)  # 512 -> 512 by 3 x 3 on four pictures of 128 x 128
    assert not _kept.packs_anew(estimate_us=30, packed_bytes=5 << 20) and not _kept.packs_anew(estimate_us=90, packed_bytes=0)
    first = pack(layer)
    assert pack(layer) is first and not layer.taken.makes_anew  # on the CPU


def test_what_is_made_anew_is_kept_by_nobody(layer):
    x = torch.randn(1, 16, 12, 12)
    with torch.no_grad(), face.enable():
        kept, before = layer(x), face.cache_info()
        layer.taken.makes_anew = True
        anew = [layer(x) for _ in range(3)]
        layer.weight.data.zero_()  # past the version counter
        assert torch.equal(layer(x), layer.bias.view(-1, 1, 1).expand_as(kept))
    after = face.cache_info()
    assert all(torch.equal(each, kept) for each in anew)
    assert after.times_packed == before.times_packed + 4 and after.packed_bytes == before.packed_bytes


class Stand:
    """A plan as far as a choice looks at it, or a call that has one."""

    def __init__(self, form, size, estimate_us, dtype=torch.float16):
        self.plan, self.dtype, self.packs = self, dtype, form != "raw"
        self.form, self.size, self.estimate_us = form, size, estimate_us

    def weights(self, _):
        return self.form, self.size


@pytest.mark.parametrize(
    "size, raw_us, form, is_raw",
    [
        (1 << 20, 10.0, "raw", True),
        (1 << 20, 10.4, "raw", True),
        (1 << 20, 10.6, "raw", False),  # more than a twentieth slower
        (16 << 10, 10.0, "raw", False),  # a copy that is small stays
        (1 << 20, 10.0, "tiles", False),  # what is new in every run would be packed likewise
    ],
)
def test_large_weights_are_read_raw_on_cuda(monkeypatch, size, raw_us, form, is_raw):
    packed, raw = Stand("tiles", size, 10.0), Stand(form, size, raw_us)
    monkeypatch.setattr(_plans, "plan", lambda *given: (raw if given[-1] is True else packed, None, None))
    assert (_plans.forward_plan({}, 0, torch.float16, False)[0] is raw) == is_raw
    assert _plans.forward_plan({}, -1, torch.float16, False)[0] is packed  # on the CPU
    assert _plans.forward_plan({}, 0, torch.float16, True)[0] is raw  # in training


def test_what_is_cast_and_packed_in_each_call():
    def anew(call, device=0, new=False, direction=_plans.FORWARD):
        return _kept.makes_anew(call, direction, device, new)

    small, large = Stand("raw", 16 << 10, 10.0), Stand("raw", (16 << 10) + 2, 10.0)
    assert anew(large) and not anew(small) and not anew(large, device=-1)
    assert anew(small, new=True)
    assert anew(Stand("tiles", 5 << 20, 500.0)) and not anew(Stand("tiles", 5 << 20, 30.0))
    assert anew(Stand("tiles", 8, 1.0, torch.float64), device=-1)
    assert not anew(Stand("raw", 5 << 20, 1.0), new=True, direction=_plans.BACKWARD_WEIGHTS)
