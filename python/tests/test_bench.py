"""What the whole-model bench keeps while it measures, with a stand-in for CUDA's graphs."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import gc
import json
import math
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

    nothing = {"graph": contextlib.nullcontext(), "stream": contextlib.nullcontext(), "Stream": None}
    nothing.update(dict.fromkeys(("synchronize", "empty_cache", "reset_peak_memory_stats")), max_memory_allocated=0)
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


def run_bench(capsys, monkeypatch, *arguments):
    import whole_models

    quick = ["whole_models.py", "--quick", "--device", "cpu", "--models", "mobilenet_v3", "--batches", "1", *arguments]
    monkeypatch.setattr(sys, "argv", quick)
    code = whole_models.main()
    return code, capsys.readouterr().out


def test_rows_and_settings_are_written(capsys, monkeypatch, tmp_path):
    path = tmp_path / "rows.json"
    code, out = run_bench(capsys, monkeypatch, "--channels-last", "--json", str(path))
    told = json.loads(path.read_text())
    assert code == 0 and not told["failed"], out
    assert [row["kind"] for row in told["rows"]] == ["inference", "training", "fused"]
    assert all(row["left"] == 0 and row["theirs_ms"] > 0 and row["differs"] < 1e-3 for row in told["rows"])
    assert told["settings"]["mobilenet_v3"]["channels_last"] and told["settings"]["mobilenet_v3"]["computes_in"] == "float32"
    assert path.stat().st_size < 4096


@pytest.mark.parametrize("kind", ["inference", "fused"])
def test_a_wrong_layer_is_named(capsys, monkeypatch, kind):
    """A depthwise layer whose results are a hundredth too large."""
    from polyconv import _core
    from polyconv.torch import _dispatch, _run

    forward, fused, depthwise = _run.forward_itself, _core.torch_fused, []

    def wrong(result, w):
        if w.shape[1] == 1 and w.shape[2] == 5:
            result.mul_(1.01)
            depthwise.append(w)
        return result

    def wrong_forward(x, w, *settings, **more):
        return wrong(forward(x, w, *settings, **more), w)

    monkeypatch.setattr(_core, "torch_fused", lambda taken, x, w, *more: wrong(fused(taken, x, w, *more), w))
    with _dispatch.watched(wrong_forward, None):
        code, out = run_bench(capsys, monkeypatch, "--kinds", kind)
    assert code == 1 and depthwise, out
    worst = out.split("beyond the bound; the worst:")[1].splitlines()[1]
    assert "features." in worst and "bound 4: fwd:" in worst and "f5x5" in worst and " by threads/" in worst, out


CHILD = """
import argparse, os, signal, sys, time
sys.path.insert(0, {bench!r})
import apart
from rows import Found, Row

parser = argparse.ArgumentParser()
for name in ("models", "kinds", "json", "turn", "rounds"):
    parser.add_argument("--" + name)
options = parser.parse_args()
found = Found("PyTorch of a test", options.json)
with apart.turn(options.turn, lambda: None) as seconds:
    assert 0 < seconds <= 60 and options.rounds == "3", (seconds, options)
    for kind in options.kinds.split(","):
        found.begin(options.models, kind, 1)
        if (options.models, kind) == ("second", "graph"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if (options.models, kind) == ("third", "graph"):
            time.sleep(600)
        found.add(Row(options.models, kind, 1, 2.0, 1.0, 10, 9, 0.0, 0))
"""


@pytest.fixture
def children(monkeypatch, tmp_path):
    """Processes that measure nothing, and what they are to say."""
    import apart
    from rows import Found

    program = tmp_path / "whole_models.py"
    program.write_text(CHILD.format(bench=str(pathlib.Path(apart.__file__).parent)))
    monkeypatch.setattr(apart, "_PROGRAM", program)
    return apart, Found("", tmp_path / "all.json")


def test_a_process_that_hangs_loses_one_row(capfd, children):
    apart, found = children
    arguments = ["--apart", "--models=third,first", "--rounds", "3", "--seconds=60", "--limit", "4"]
    apart.run(["third", "first"], ["inference", "graph", "fused"], 60, 4, arguments, found)
    rows = [(row.model, row.kind) for row in found.rows]
    assert sorted(rows) == [*[("first", kind) for kind in ("fused", "graph", "inference")], ("third", "fused"), ("third", "inference")]
    assert found.failed == [["third graph batch 1 did not end within 4 s and was ended; where it was is above"]]
    assert "whole_models.py" in capfd.readouterr().err.split("Fatal Python error: Aborted")[1]


def test_a_process_that_crashes_loses_one_row(capfd, tmp_path, children):
    apart, found = children
    arguments = ["--apart", "--models=first,second", "--rounds", "3", "--seconds", "60", "--json", "all.json"]
    apart.run(["first", "second"], ["inference", "graph", "fused"], 60, math.inf, arguments, found)
    rows = [(row.model, row.kind) for row in found.rows]
    assert rows == [*[("first", kind) for kind in ("inference", "graph", "fused")], ("second", "inference"), ("second", "fused")]
    assert found.failed == [["second graph batch 1 was ended by SIGSEGV"]]
    assert "FAIL  second graph batch 1" in capfd.readouterr().out
    table = found.table()
    assert table.startswith("PyTorch of a test\n") and "enable(): 3 rows, geometric mean 2.000, least 2.000, 0 below 0.97, 0 with a higher" in table
    assert json.loads((tmp_path / "all.json").read_text())["failed"] == found.failed
