"""The package as it is installed: what it carries, what it loads, and that its documents say what is true."""
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

import polyconv

FOLDER = pathlib.Path(polyconv.__file__).parent


def run(program, folder=None, **environment):
    """The output of a fresh process."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=dict(os.environ, **environment))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_carries_its_own_library_and_no_runtime():
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix != ".pyc" and path.is_file()}
    libraries = {name for name in files if ".so" in name and not name.startswith("_core")}
    assert libraries == {
        "lib/libpolyconv.so.0",
        *(["lib/libpolyconv_xla.so"] if "lib/libpolyconv_xla.so" in libraries else []),  # where jaxlib was there to build with
        "lib/polyconv/libpolyconv_reference.so",
        "lib/polyconv/libpolyconv_threads.so",
    }
    assert "py.typed" in files
    for backend in polyconv.backends():
        if backend.device_kind == "cpu":
            assert pathlib.Path(backend.path).resolve().parent == (FOLDER / "lib" / "polyconv").resolve()
    assert sum((FOLDER / name).stat().st_size for name in files) < 40 << 20


def test_no_openmp_of_ours():
    """A process that convolves has no OpenMP runtime that it would not have without us."""
    program = """
import numpy, polyconv
libraries = lambda: {line.split()[-1] for line in open('/proc/self/maps') if 'omp' in line.rsplit('/', 1)[-1] and '.so' in line}
x = numpy.ones((1, 32, 64, 64), 'f'); w = numpy.ones((32, 32, 3, 3), 'f')
polyconv.conv(x, w)
print(sorted(libraries()))
"""
    assert run(program).strip() == "[]"


def test_beside_pytorchs_openmp():
    """PyTorch's runtime is the only one in the process, and both libraries go on giving right results."""
    pytest.importorskip("torch")
    program = """
import torch, polyconv.torch
x, w = torch.randn(2, 32, 40, 40), torch.randn(32, 32, 3, 3)
libraries = lambda: {line.split()[-1] for line in open('/proc/self/maps') if 'omp' in line.rsplit('/', 1)[-1] and '.so' in line}
theirs = torch.nn.functional.conv2d(x, w)
before = libraries()
with polyconv.torch.enable():
    for _ in range(5):
        ours = torch.nn.functional.conv2d(x, w)
        assert (torch.nn.functional.conv2d(x, w) - theirs).abs().max() < 1e-3
        assert (torch.matmul(x[0, 0], x[0, 1]) == torch.matmul(x[0, 0], x[0, 1])).all()
assert libraries() == before, (before, libraries())
print('one')
"""
    assert run(program).strip() == "one"


def test_pytorchs_threads_are_shared():
    """Under polyconv.torch a process that convolves has no threads beside PyTorch's, and a forked child goes on by itself."""
    torch = pytest.importorskip("torch")
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        pytest.skip("this PyTorch has threads of another kind")
    program = """
import os, signal, torch, polyconv.torch
torch.set_num_threads(2)
count = lambda: len(os.listdir('/proc/self/task'))
x, w = torch.randn(2, 64, 40, 40), torch.randn(64, 64, 3, 3)
theirs = torch.nn.functional.conv2d(x, w)
torch.randn(4096, 256).exp()
before = count()
with torch.no_grad(), polyconv.torch.enable():
    for _ in range(5):
        assert (torch.nn.functional.conv2d(x, w) - theirs).abs().max() < 1e-3
    assert count() == before, (count(), before)
    child = os.fork()
    if not child:  # PyTorch's own parallel loops would wait for ever here: NumPy compares
        signal.alarm(60)
        right = abs(torch.nn.functional.conv2d(x, w).numpy() - theirs.numpy()).max() < 1e-3
        os._exit(0 if right and count() == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
print('shared')
"""
    assert run(program, OMP_NUM_THREADS="2").strip().endswith("shared")


def test_it_imports_no_framework():
    assert run("import sys, polyconv; print(sorted({'torch', 'jax', 'cupy'} & set(sys.modules)))").strip() == "[]"


def test_every_public_function_is_documented():
    undocumented = [name for name in polyconv.__all__ if not getattr(polyconv, name).__doc__]
    assert undocumented == []


def test_examples_of_the_document(tmp_path):
    """The first listings of docs/python.md run as they stand."""
    root = pathlib.Path(__file__).parents[2]
    document = root / "docs" / "python.md"
    listings = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.S)
    photograph, functions, model, fused, jax, plan = listings
    if importlib.util.find_spec("PIL"):
        (tmp_path / "polyconv").symlink_to(root)  # the clone that the page begins with
        run(photograph, tmp_path)
        assert (tmp_path / "blurred.png").stat().st_size > 0
    run(functions)
    fill = "import numpy, polyconv\nx64, w64, bias64 = (numpy.ones(s, 'f') for s in ((1, 64, 56, 56), (64, 64, 3, 3), (64,)))\n"
    run(fill + plan)
    if importlib.util.find_spec("jax"):
        assert "polyconv" in run(jax)
    pytest.importorskip("torchvision")
    run(model + fused)


def test_daemon_threads_may_call_while_the_interpreter_ends():
    """Before Python 3.14 one that then asked for the global lock took the process down."""
    program = """
import threading, time, numpy, polyconv
x, w = numpy.ones((1, 8, 32, 32), "f"), numpy.ones((8, 8, 3, 3), "f")
def forever():
    while True:
        polyconv.conv(x, w, threads=1)
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
"""
    for _ in range(3):
        run(program)


def test_the_first_calls_of_several_threads_do_not_wait_for_each_other():
    """What the first call imports was made under a lock that others waited for with the global lock in their hands."""
    program = """
import sys, threading, numpy, polyconv
sys.setswitchinterval(1e-6)
x, w, ready = numpy.ones((1, 8, 32, 32), "f"), numpy.ones((8, 8, 3, 3), "f"), threading.Barrier(8)
def call():
    ready.wait()
    polyconv.conv(x, w, threads=1)
threads = [threading.Thread(target=call) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""
    for _ in range(3):
        run(program)
