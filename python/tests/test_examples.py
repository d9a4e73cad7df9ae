"""The Python examples and the notebook run, and say what they should."""
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

import polyconv

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "python"


def run(*command, expected=0, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=500, env=dict(os.environ, **environment)
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_photograph(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    text = run(EXAMPLES / "photograph.py", ROOT / "examples" / "data" / "coffee.png", tmp_path)
    assert text.count(" ms") == 3
    picture = numpy.asarray(Image.open(ROOT / "examples" / "data" / "coffee.png").convert("RGB")).astype(float)
    found = {name: numpy.asarray(Image.open(tmp_path / f"{name}.png")).astype(float) for name in ("blurred", "sharp", "edges")}

    def roughness(image):
        return numpy.abs(numpy.diff(image, axis=1)).mean()

    assert found["blurred"].shape == picture.shape and abs(found["blurred"].mean() - picture.mean()) < 0.5
    assert roughness(found["blurred"]) < 0.5 * roughness(picture) < roughness(picture) < 0.8 * roughness(found["sharp"])
    assert found["edges"].shape == picture.shape[:2] and found["edges"].std() > 10
    assert "No such file" in run(EXAMPLES / "photograph.py", tmp_path / "none.png", tmp_path, expected=1)


@pytest.mark.parametrize("data", [None, ROOT.parent / "shared" / "data" / "mnist"])
def test_lenet(data):
    pytest.importorskip("torch")
    if data is not None and not data.is_dir():
        pytest.skip(f"no {data}")
    text = run(EXAMPLES / "lenet.py", "--steps", 60 if data else 150, *(["--data", data] if data else []), OMP_NUM_THREADS="1")
    rows = [line.split() for line in text.splitlines() if len(line.split()) == 3 and line.split()[0].isdigit()]
    losses = [(float(theirs), float(ours)) for _, theirs, ours in rows]
    assert losses[0][0] > 2 and losses[-1][0] < losses[0][0] - 0.5
    assert max(abs(ours - theirs) for theirs, ours in losses) < 0.02
    assert " 0 left to PyTorch" in text


def test_vae_decoder():
    pytest.importorskip("torch")
    text = run(EXAMPLES / "vae_decoder.py", "--size", 32, "--width", 16, "--rounds", 1, "--device", "cpu", OMP_NUM_THREADS="1")
    assert " 0 left to PyTorch" in text and "MB" in text
    assert "expected a multiple of 8" in run(EXAMPLES / "vae_decoder.py", "--size", 30, expected=2)


def test_cupy_arrays():
    """Where CuPy or the GPU is missing the example says so."""
    if importlib.util.find_spec("cupy") is None or not any(one.name.startswith("cuda") for one in polyconv.devices()):
        text = run(EXAMPLES / "cupy_arrays.py", expected=1)
        assert "needs CuPy" in text or "no CUDA device" in text
    else:
        assert "cupy (4, 64, 56, 56) float32" in run(EXAMPLES / "cupy_arrays.py").replace("._core.core", "")


def test_whole_models():
    """The benchmark of whole models, narrow and on small pictures: results agree, and it tells when they do not."""
    pytest.importorskip("torch")
    bench = ROOT / "python" / "bench" / "whole_models.py"
    text = run(bench, "--quick", "--device", "cpu", "--batches", 1, "--models", "mobilenet_v3,unet3d", "--kinds", "inference,fused", OMP_NUM_THREADS="1")
    assert "FAIL" not in text and text.count("| fused |") == 2 and "geometric mean" in text
    assert "expected some of resnet50" in run(bench, "--models", "alexnet", expected=2)


def test_the_notebook(tmp_path):
    """It runs from top to bottom, its pictures have something on them, and its results are those that it speaks of."""
    for needed in ("nbconvert", "nbformat", "ipykernel", "matplotlib"):
        pytest.importorskip(needed)
    run(
        "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", EXAMPLES / "tour.ipynb", "--output-dir", tmp_path,
        PYTHONPATH=os.pathsep.join(sys.path),
    )  # fmt: skip
    cells = json.loads((tmp_path / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    tables = ["".join(output["data"]["text/html"]) for output in outputs if "text/html" in output.get("data", {})]
    text = "".join("".join(output.get("text", "")) for output in outputs)
    assert [len(picture) > 20000 for picture in pictures] == [True, True]
    assert len(tables) == 1 and "chosen" in tables[0] and text.count("invariant") == 1


def test_the_notebook_is_kept_without_results():
    cells = json.loads((EXAMPLES / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
