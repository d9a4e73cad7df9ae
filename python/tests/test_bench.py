"""What the whole-model bench keeps while it measures, with a stand-in for CUDA's graphs."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import gc
import pathlib
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))


class Graph:
    def replay(self):
        pass


def test_a_replay_keeps_the_model_whose_memory_it_reads(monkeypatch):
    import whole_models

    nothing = {"graph": contextlib.nullcontext(), "stream": contextlib.nullcontext(), "Stream": None, "synchronize": None}
    for name, result in nothing.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, result=result: result, raising=False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph, raising=False)

    def captured():
        net = torch.nn.Linear(2, 2)
        return whole_models.Replay(lambda: net(torch.ones(1, 2))), weakref.ref(net)

    replay, net = captured()
    gc.collect()
    assert net() is not None
    assert replay().shape == (1, 2)
    del replay
    gc.collect()
    assert net() is None
