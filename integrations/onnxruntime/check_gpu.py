"""What the provider does on a GPU, beside the host: ONNX's node tests, and whole networks in float and float16.

    PYTHONPATH=integrations/onnxruntime POLYCONV_ONNXRUNTIME_LIBRARY=build/on_device/lib/libpolyconv_onnxruntime.so \\
        python integrations/onnxruntime/check_gpu.py [--device cuda] [--seconds 0.3] [nodes] [detector] [resnet50] [mobilenetv2] [mobilenetv3]

Needs onnxruntime 1.24 or later, onnx and NumPy. Each line ends in PASS or FAIL; the exit status is the number of FAILs, 99 at
most. Networks run on ONNX Runtime's CPU provider, on the provider on the host and on the GPU, and where ONNX Runtime has a CUDA
provider on that; times are the least of runs from host memory to host memory. "slowest" are the steps that take most on the GPU,
by events in its stream.
"""

import argparse
import os
import re
import sys
import tempfile
import time
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import polyconv_onnxruntime
from compare import BUILT, Builder, input_shape

CONVOLUTIONS = {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv"}


def detector(path):
    """A backbone of three steps, their maps enlarged, joined and turned into one of every pixel's class, as text detection has it."""
    b = Builder()
    x, maps, channels = "x", [], 3
    for width in (16, 32, 64):
        x = b.node("Relu", [b.conv(x, channels, width, 3, 2)])
        gate = b.node("Sigmoid", [b.conv(b.node("GlobalAveragePool", [x]), width, width, 1)])
        x, channels = b.node("Mul", [x, gate]), width
        maps.append(b.conv(x, width, 32, 1))
    scales = [b.constant("scale%d" % times, [1, 1, times, times]) for times in (1, 2, 4)]
    maps = [b.node("Resize", [one, "", scale], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
            for one, scale in zip(maps, scales)]
    y = b.node("HardSwish", [b.conv(b.node("Concat", maps, axis=1), 96, 32, 3)])
    for channels, output in ((32, 16), (16, 1)):
        weights = b.constant("up%d" % output, b.random.standard_normal((channels, output, 2, 2)) / np.sqrt(channels))
        y = b.node("ConvTranspose", [y, weights], strides=[2, 2])
        y = b.node("Relu", [y]) if output > 1 else b.node("Sigmoid", [y])
    b.store(y, ["N", 1, "H4", "W4"], path, ["N", 3, "H", "W"])


def to_half(model):
    """The same network with float16 in the place of float, but for the scales of Resize."""
    kept = {name for node in model.graph.node if node.op_type == "Resize" for name in node.input[1:]}
    for one in model.graph.initializer:
        if one.data_type == 1 and one.name not in kept:
            one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one).astype(np.float16), one.name))
    for value in list(model.graph.input) + list(model.graph.output):
        value.type.tensor_type.elem_type = 10
    return model


def session(model, device, report=None, **options):
    settings = onnxruntime.SessionOptions()
    if device == "onnxruntime":
        return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    if device == "CUDAExecutionProvider":
        return onnxruntime.InferenceSession(model, settings, providers=[device])
    if report:
        options.update(report=report, profile=1)
    return onnxruntime.InferenceSession(model, polyconv_onnxruntime.options(settings, device=device, **options), enable_fallback=0)


class Check:
    def __init__(self, device, seconds):
        self.device, self.seconds, self.failed = device, seconds, 0

    def say(self, what, good):
        self.failed += not good
        print("%s: %s" % (what, "PASS" if good else "FAIL"), flush=True)

    def nodes(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from onnx.backend.test.case.node import collect_testcases
            cases = [c for c in collect_testcases(None) if any(n.op_type in CONVOLUTIONS for n in c.model.graph.node)]
        right, skipped, wrong = 0, 0, []
        for case in cases:
            model = case.model.SerializeToString()
            try:
                session(model, "onnxruntime")
            except Exception:  # pylint: disable=broad-except
                skipped += 1  # an operator or version that this runtime has not at all
                continue
            try:
                here = session(model, self.device)
                for inputs, outputs in case.data_sets:
                    results = here.run(None, {v.name: np.asarray(a) for v, a in zip(case.model.graph.input, inputs)})
                    for result, expected in zip(results, outputs):
                        np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=max(case.atol, 1e-5))
                right += 1
            except Exception as failure:  # pylint: disable=broad-except
                wrong.append("%s: %s" % (case.name, " ".join(str(failure).split())[:200]))
        for line in wrong:
            print("  " + line)
        self.say("ONNX's node tests on %s: %d right, %d wrong, %d not in this runtime" % (self.device, right, len(wrong), skipped),
                 not wrong and right >= 15)

    def times(self, made, feed):
        took, first = [], time.perf_counter()
        results = made.run(None, feed)
        first = time.perf_counter() - first
        made.run(None, feed)
        begin = time.perf_counter()
        while len(took) < 5 or time.perf_counter() - begin < self.seconds:
            start = time.perf_counter()
            made.run(None, feed)
            took.append(time.perf_counter() - start)
        return results[0], min(took) * 1e3, first * 1e3

    def network(self, name, folder, half, batch, size):
        path = os.path.join(folder, name + ".onnx")
        (detector if name == "detector" else BUILT[name])(path)
        model = onnx.load(path)
        feed = {"x": np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype(np.float32)}
        truth, cpu, _ = self.times(session(model.SerializeToString(), "onnxruntime"), feed)
        if half:
            model, feed = to_half(model), {"x": feed["x"].astype(np.float16)}
        model = model.SerializeToString()
        line = "%s %s %dx3x%dx%d: onnxruntime cpu f32 %.2f ms" % (name, "f16" if half else "f32", batch, size, size, cpu)
        if not half:
            line += ", polyconv cpu %.2f" % self.times(session(model, "cpu"), feed)[1]
        result, took, first = self.times(session(model, self.device), feed)
        line += ", polyconv %s %.2f (first %.0f)" % (self.device, took, first)
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            line += ", onnxruntime cuda %.2f" % self.times(session(model, "CUDAExecutionProvider"), feed)[1]
        error = float(np.abs(result.astype(np.float64) - truth).max() / np.abs(truth).max())
        self.say("%s, error %.1e" % (line, error), error < (2e-2 if half else 2e-4) and bool(np.isfinite(result).all()))
        self.report(model, feed, folder)

    def report(self, model, feed, folder):
        path = os.path.join(folder, "report.txt")
        here = session(model, self.device, report=path)
        for _ in range(5):
            here.run(None, feed)
        del here
        with open(path) as file:
            text = file.read()
        print("  " + text.split("\n", 1)[0])
        parts = re.findall(r"\n(layer|operator) (\S*)\n  nodes +(\S+)\n.*?\n  time .*?least ([\d.]+)((?:\n  kernel +.*)*)", text)
        parts.sort(key=lambda part: -float(part[3]))
        print("  %d steps with times, %.3f ms together; slowest:" % (len(parts), sum(float(part[3]) for part in parts)))
        batch = ":n%d," % feed["x"].shape[0]
        for kind, name, nodes, least, kernels in parts[:6]:
            kernel = [line.split(None, 1)[1] for line in kernels.split("\n") if batch in line]
            print("    %7.3f ms %s %s %s %s" % (float(least), kind, name, nodes, "".join(kernel[:1])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    print("onnxruntime %s, devices %s" % (onnxruntime.__version__, ", ".join(polyconv_onnxruntime.devices())))
    check = Check(arguments.device, arguments.seconds)
    parts = arguments.parts or ["nodes", "detector", "resnet50", "mobilenetv2", "mobilenetv3"]
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            if part == "nodes":
                check.nodes()
                continue
            for half in (False, True):
                for batch in (1,) if part in ("detector", "mobilenetv3") else (1, 16):
                    try:
                        check.network(part, folder, half, batch, input_shape(part)[-1])
                    except Exception as failure:  # pylint: disable=broad-except
                        check.say("%s %s: %s" % (part, "f16" if half else "f32", " ".join(str(failure).split())[:400]), False)
    sys.exit(min(check.failed, 99))


if __name__ == "__main__":
    main()
