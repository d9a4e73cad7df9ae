"""tune_layers, tune_merge and measured_on, in a process of their own with a database of its own."""
# SPDX-License-Identifier: Apache-2.0

import os
import subprocess
import sys

LAYERS = "['fwd:c3,k4,i9x9,f3x3', polyconv.Problem('fwd:c4,k4,i9x9,f3x3')]"
OPTIONS = "kernel='threads/*,reference/*', fallback='allow', threads=1"


def run(folder, program, **environment):
    """What a program prints; polyconv is there, and LAYERS stands for two layers."""
    own = {"POLYCONV_TUNING": "on", "POLYCONV_TUNING_DB": str(folder / "tuning.txt"), **environment}
    program = "import polyconv\n" + program.replace("LAYERS", LAYERS).replace("OPTIONS", OPTIONS)
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_times_are_told_kept_and_taken(tmp_path):
    first = run(
        tmp_path,
        "heard = []\n"
        "done = polyconv.tune_layers(LAYERS, progress=heard.append, OPTIONS)\n"
        "assert [one.problem for one in done] == [0, 1] and all(one.finished and one.us > 0 for one in done)\n"
        "assert len(heard) == sum(one.timed for one in done) + 2 and heard[-1] == done[-1] and heard[-1].left_ms == 0\n"
        "print(done[0].kernel, polyconv.Plan(LAYERS[0], OPTIONS).measured_on)",
    )
    again = run(
        tmp_path,
        "done = polyconv.tune_layers(LAYERS, OPTIONS)\n"
        "assert done[0].timed == 0 and done[0].known > 0\n"
        "plan = polyconv.Plan(LAYERS[0], OPTIONS)\n"
        "chosen = polyconv.explain(LAYERS[0], OPTIONS).chosen\n"
        "assert chosen.measured_on == plan.measured_on and done[0].kernel == plan.kernel\n"
        "assert not plan.measured_elsewhere and not chosen.measured_elsewhere and done[0].unkept == 0\n"
        "assert polyconv.Plan('fwd:c5,k4,i9x9,f3x3', OPTIONS).measured_on == ''\n"
        "print(plan.kernel, plan.measured_on)",
    )
    assert first == again and len(again[1]) == 10


def test_a_watcher_ends_it(tmp_path):
    program = (
        "calls = []\n"
        "done = polyconv.tune_layers(LAYERS, progress=lambda now: calls.append(now) or False, OPTIONS)\n"
        "assert done == [] and len(calls) == 1\n"
        "try:\n"
        "    polyconv.tune_layers(LAYERS, progress=lambda now: 1 / 0, OPTIONS)\n"
        "except ZeroDivisionError:\n"
        "    print('raised')"
    )
    assert run(tmp_path, program) == ["raised"]


def test_wrong_calls(tmp_path):
    program = (
        "for call, error in ((lambda: polyconv.tune_layers([], OPTIONS), polyconv.InvalidArgument),\n"
        "                    (lambda: polyconv.tune_layers(LAYERS, -1), polyconv.InvalidArgument),\n"
        "                    (lambda: polyconv.tune_layers(LAYERS, device='no such device'), polyconv.Error),\n"
        "                    (lambda: polyconv.tune_merge('no/such/file'), polyconv.FileError)):\n"
        "    try:\n"
        "        call()\n"
        "        print('taken')\n"
        "    except error:\n"
        "        print('refused')"
    )
    assert run(tmp_path, program) == ["refused"] * 4
    off = (
        "try:\n"
        "    polyconv.tune_layers(LAYERS, OPTIONS)\n"
        "except polyconv.Unsupported:\n"
        "    print('refused')"
    )
    assert run(tmp_path, off, POLYCONV_TUNING="off") == ["refused"]


def test_merge(tmp_path):
    run(tmp_path, "polyconv.tune_layers(LAYERS, OPTIONS)")
    other = tmp_path / "tuning.txt"
    lines = len(other.read_text().splitlines()) - 1
    (tmp_path / "own").mkdir()
    assert run(tmp_path / "own", f"print(polyconv.tune_merge({str(other)!r}))") == [str(lines)]
