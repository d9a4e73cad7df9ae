"""Whose threads a session's layers run on, and into how many threads' work they are cut."""

import os
import re
import time

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import polyconv_onnxruntime
from conftest import make_model, without


def model(random):
    """Two layers of some milliseconds each, so that every thread gets there in time."""
    weights = {name: random.standard_normal((64, 64, 3, 3), dtype=np.float32) / 24 for name in "uv"}
    return make_model([("Conv", "xu", "a", {"pads": [1] * 4}), ("Conv", "av", "y", {"pads": [1] * 4})],
                      {"x": (TensorProto.FLOAT, (1, 64, 96, 96))}, weights)


def tasks():
    """The process's threads, once their number stays: one that was joined is listed a moment longer."""
    before, now = None, len(os.listdir("/proc/self/task"))
    while now != before:
        time.sleep(0.05)
        before, now = now, len(os.listdir("/proc/self/task"))
    return now


def run(random, path, count=0, affinities=None, by_python=True, **options):
    """What the report of a session of `count` threads says, (cut for, why, how many had a part), and by how many threads the process grew.
    Without `by_python` the provider is added as a program in C does it, for which nobody reads that count."""
    given = onnxruntime.SessionOptions()
    given.intra_op_num_threads = count
    if affinities:
        given.add_session_config_entry("session.intra_op_thread_affinities", affinities)
    made, x = model(random), {"x": random.standard_normal((1, 64, 96, 96), dtype=np.float32)}
    expected = without(made).run(None, x)[0]
    options.update(report=str(path), profile=1)
    if by_python:
        polyconv_onnxruntime.options(given, **options)
    else:
        here = [device for device in polyconv_onnxruntime.register() if device.ep_metadata["device"] == "cpu"]
        given.add_provider_for_devices(here, {key: str(value) for key, value in options.items()})
    before = tasks()
    session = onnxruntime.InferenceSession(made, given, enable_fallback=0)
    for _ in range(40):  # a busy machine wakes threads late
        np.testing.assert_allclose(session.run(None, x)[0], expected, atol=1e-4)
    grown = tasks() - before
    del session
    with open(path) as file:
        cut, why, part = re.search(r"^threads: cut for (\d+), (.*?); (\d+) had a part in the runs$", file.read(), re.MULTILINE).groups()
    return int(cut), why, int(part), grown


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_sessions_count(threads, random, tmp_path):
    """On its threads and none of ours: the process has one less than it has, since the caller works too."""
    cut, why, part, grown = run(random, tmp_path / "r", threads)
    assert (cut, why, grown) == (threads, "as the option says", threads - 1)
    assert 1 <= part <= threads and (part == threads or threads > os.cpu_count())


def test_an_option_goes_before_it(random, tmp_path):
    assert run(random, tmp_path / "r", 3, threads=1)[:3] == (1, "as the option says", 1)


def test_threads_of_ours_are_as_many(random, tmp_path):
    """Beside the two that the runtime makes for itself; threads of ours that are there already serve."""
    cut, _, _, grown = run(random, tmp_path / "r", 3, pool="own")
    assert cut == 3 and 2 <= grown <= 4


def test_affinities_tell_it_to_a_program_in_c(random, tmp_path):
    cut, why, _, grown = run(random, tmp_path / "r", 3, affinities="1;1", by_python=False)
    assert (cut, why, grown) == (3, "as the session's affinities say", 2)


def test_nobody_says_it(random, tmp_path):
    """Then work is cut for all that the process may use, by its affinity, quota and OMP_NUM_THREADS, and done by those that the session has."""
    free, why, _, _ = run(random, tmp_path / "r", by_python=False)
    assert 1 <= free <= len(os.sched_getaffinity(0)) and why == "all that the process may use"
    assert run(random, tmp_path / "r", 1, by_python=False) == (free, why, 1, 0)


def test_plans_do_not_depend_on_the_thread_that_makes_them(random, tmp_path):
    """The runtime ties each of its threads to a processor, where a plan that says no number is for one thread."""
    weights = {"w": random.standard_normal((64, 1, 3, 3), dtype=np.float32), "v": random.standard_normal((64, 64, 3, 3), dtype=np.float32),
               "u": random.standard_normal((1, 64, 3, 3), dtype=np.float32)}
    net = make_model([("Conv", "xw", "a", {}), ("Relu", "a", "b", {}), ("Conv", "bv", "c", {}), ("Relu", "c", "d", {}), ("Conv", "du", "y", {})],
                     {"x": (TensorProto.FLOAT, (1, 1, "H", "W"))}, weights)

    def kernels(**options):
        session = onnxruntime.InferenceSession(net, polyconv_onnxruntime.options(onnxruntime.SessionOptions(), report=str(tmp_path / "r"), **options), enable_fallback=0)
        for height in (250, 300):
            session.run(None, {"x": random.standard_normal((1, 1, height, 400), dtype=np.float32)})
        del session
        with open(tmp_path / "r") as file:
            text = file.read()
        return re.findall("kernel .*", text), re.search(r"cut for (\d+)", text).group(1)

    told, threads = kernels()
    for _ in range(4):
        assert kernels() == (told, threads) == kernels(threads=threads)
