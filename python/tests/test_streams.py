"""Which CUDA stream a call works on, and what PyTorch hands over to it, with a stand-in for PyTorch on a GPU; gpu/functions.py has the same
on one."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import sys
import types

import numpy
import pytest

import polyconv
from polyconv import _kinds

OWN, OTHER = 7, 0x50


@pytest.fixture
def torch(monkeypatch):
    """Notes what is asked of it. Its current stream is OWN."""
    module = types.ModuleType("torch")
    module.said = []

    class Stream:
        def __init__(self, number, device=None):
            self.cuda_stream = number

        def wait_stream(self, other):
            module.said.append(f"{self.cuda_stream} waits for {other.cuda_stream}")

    @contextlib.contextmanager
    def within(stream):
        module.said.append(f"allocates for {stream.cuda_stream}")
        yield
        module.said.append("and no longer")

    class Tensor:
        device, is_cuda = "cuda:0", True

        def record_stream(self, stream):
            module.said.append(f"recorded on {stream.cuda_stream}")

        def data_ptr(self):
            return 4096

    Tensor.__module__ = "torch"
    module.Tensor, module.float32, module.uint8 = Tensor, "float32", "uint8"
    module.empty = lambda shape, dtype, device: module.said.append(f"empty {shape} {dtype} {device}") or Tensor()
    module.cuda = types.SimpleNamespace(
        current_stream=lambda device: Stream(OWN), default_stream=lambda device: Stream(0), ExternalStream=Stream, stream=within
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_a_plan_works_on_the_stream_of_the_arrays_library(torch):
    from polyconv.objects import _stream_for

    assert _stream_for(torch.Tensor(), None) == OWN and _stream_for(torch.Tensor(), OTHER) == OTHER
    assert _stream_for(torch.Tensor(), 0) == 0  # CUDA's default stream, where somebody asks for it
    assert _stream_for(numpy.zeros(3), None) == 0


def test_another_stream_waits_and_the_memory_is_kept_from_others(torch):
    _kinds.hand_over(torch.Tensor(), OWN)
    assert not torch.said
    for other in (OTHER, 0):
        _kinds.hand_over(torch.Tensor(), other)
        assert torch.said == [f"{other} waits for {OWN}", f"recorded on {other}"]
        torch.said.clear()


@pytest.mark.parametrize("make", [lambda x, stream: _kinds.scratch(64, x, stream), lambda x, stream: _kinds.empty((4, 4), 2, x, stream)])
def test_memory_comes_from_the_stream_that_will_use_it(torch, make):
    make(torch.Tensor(), OTHER)
    assert torch.said[0] == f"allocates for {OTHER}" and torch.said[1].startswith("empty") and torch.said[2] == "and no longer"
    torch.said.clear()
    make(torch.Tensor(), OWN)
    assert len(torch.said) == 1 and torch.said[0].startswith("empty")


@pytest.mark.parametrize("stream", ["own", -1, 1.5, True])
def test_what_is_no_stream(stream):
    x, w = numpy.ones((1, 3, 8, 8), "f"), numpy.ones((4, 3, 3, 3), "f")
    plan = polyconv.Plan("fwd:c3,k4,i8x8,f3x3")
    for call in (lambda: polyconv.conv(x, w, stream=stream), lambda: plan.run(x, w, stream=stream), lambda: plan.pack(w, stream=stream)):
        with pytest.raises(polyconv.InvalidArgument, match=f"stream is {stream!r}, expected"):
            call()
