"""Whole sessions with the provider beside ONNX Runtime's CPU provider, on the same threads.

    python integrations/onnxruntime/compare.py resnet50 mobilenetv2 mobilenetv3 rapidocr [--threads 2] [--blocks 6] [--option pool=own]

rapidocr is its detection of text on a page, rapidocr_direction and rapidocr_recognition are its other two models, six lines at once.
ResNet-50, MobileNetV2 and V3 are built here, with weights of their own; a path names any other model of one float image, as
path:1x3x736x736. Blocks of runs alternate, and each block begins with two runs that do not count: threads of the other session
wait awake for a while after their last run, and would take the processors of a run in between. Prints minima and medians, and
the median of the first runs of five sessions each, every one in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Builder:
    """A graph with random weights, normalisations folded as exporters do."""

    def __init__(self):
        self.random, self.nodes, self.constants, self.count = np.random.default_rng(1), [], [], 0

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(self, kind, inputs, **attributes):
        self.count += 1
        output = "v%d" % self.count
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def conv(self, x, channels, outputs, kernel, stride=1, groups=1):
        shape = (outputs, channels // groups, kernel, kernel)
        weights = self.constant("w%d" % self.count, self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))
        bias = self.constant("b%d" % self.count, self.random.standard_normal(outputs) / 10)
        return self.node("Conv", [x, weights, bias], pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)

    def save(self, x, channels, path):
        weights = self.constant("classes", self.random.standard_normal((channels, 1000)) / 50)
        x = self.node("Gemm", [self.node("Flatten", [self.node("GlobalAveragePool", [x])]), weights])
        self.store(x, ["N", 1000], path)

    def store(self, result, sizes, path, image=("N", 3, 224, 224)):
        graph = helper.make_graph(self.nodes, "net", [helper.make_tensor_value_info("x", 1, list(image))],
                                  [helper.make_tensor_value_info(result, 1, sizes)], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def resnet50(path):
    b, channels = Builder(), 64
    x = b.node("MaxPool", [b.node("Relu", [b.conv("x", 3, 64, 7, 2)])], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = b.node("Relu", [b.conv(x, channels, width, 1)])
            y = b.conv(b.node("Relu", [b.conv(y, width, width, 3, step)]), width, 4 * width, 1)
            x = b.conv(x, channels, 4 * width, 1, step) if block == 0 else x
            x, channels = b.node("Relu", [b.node("Add", [y, x])]), 4 * width
    b.save(x, channels, path)


def mobilenetv2(path):
    b, channels = Builder(), 32
    bounds = [b.constant("zero", 0), b.constant("six", 6)]
    x = b.node("Clip", [b.conv("x", 3, 32, 3, 2)] + bounds)
    for factor, width, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            step, inner, y = stride if block == 0 else 1, channels * factor, x
            if factor > 1:
                y = b.node("Clip", [b.conv(y, channels, inner, 1)] + bounds)
            y = b.conv(b.node("Clip", [b.conv(y, inner, inner, 3, step, inner)] + bounds), inner, width, 1)
            x, channels = b.node("Add", [x, y]) if step == 1 and channels == width else y, width
    b.save(b.node("Clip", [b.conv(x, channels, 1280, 1)] + bounds), 1280, path)


def mobilenetv3(path):
    """The large one: gates for each channel in half of the blocks."""
    b, channels = Builder(), 16
    x = b.node("HardSwish", [b.conv("x", 3, 16, 3, 2)])
    for kernel, inner, width, gate, activation, stride in (
            (3, 16, 16, 0, "Relu", 1), (3, 64, 24, 0, "Relu", 2), (3, 72, 24, 0, "Relu", 1), (5, 72, 40, 24, "Relu", 2), (5, 120, 40, 32, "Relu", 1),
            (5, 120, 40, 32, "Relu", 1), (3, 240, 80, 0, "HardSwish", 2), (3, 200, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1),
            (3, 184, 80, 0, "HardSwish", 1), (3, 480, 112, 120, "HardSwish", 1), (3, 672, 112, 168, "HardSwish", 1), (5, 672, 160, 168, "HardSwish", 2),
            (5, 960, 160, 240, "HardSwish", 1), (5, 960, 160, 240, "HardSwish", 1)):
        y = b.node(activation, [b.conv(x, channels, inner, 1)]) if inner != channels else x
        y = b.node(activation, [b.conv(y, inner, inner, kernel, stride, inner)])
        if gate:
            g = b.node("Relu", [b.conv(b.node("GlobalAveragePool", [y]), inner, gate, 1)])
            y = b.node("Mul", [b.node("HardSigmoid", [b.conv(g, gate, inner, 1)], alpha=1 / 6), y])
        y = b.conv(y, inner, width, 1)
        x, channels = b.node("Add", [x, y]) if stride == 1 and channels == width else y, width
    b.save(b.node("HardSwish", [b.conv(x, channels, 960, 1)]), 960, path)


BUILT = {"resnet50": resnet50, "mobilenetv2": mobilenetv2, "mobilenetv3": mobilenetv3}


def input_shape(name):
    """Of the built networks; those of every size get a page."""
    return [1, 3, 224, 224] if name in BUILT else [1, 3, 736, 736]
RAPIDOCR = {"rapidocr": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 736, 736)), "rapidocr_direction": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", (6, 3, 48, 192)),
            "rapidocr_recognition": ("ch_PP-OCRv4_rec_infer.onnx", (6, 3, 48, 320))}


def model(name, folder):
    """The path and the input's shape."""
    if name in RAPIDOCR:
        import rapidocr_onnxruntime
        return os.path.join(os.path.dirname(rapidocr_onnxruntime.__file__), "models", RAPIDOCR[name][0]), RAPIDOCR[name][1]
    if name in BUILT:
        path = os.path.join(folder, name + ".onnx")
        BUILT[name](path)
        return path, (1, 3, 224, 224)
    path, _, shape = name.rpartition(":")
    return path, tuple(int(size) for size in shape.split("x"))


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def threads(count):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count
    return options


def alone(path, arguments):
    import onnxruntime
    return onnxruntime.InferenceSession(path, threads(arguments.threads), providers=["CPUExecutionProvider"])


def with_polyconv(path, arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    if "POLYCONV_ONNXRUNTIME_LIBRARY" not in os.environ:  # the package beside this script has no library, pip's has
        sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    import onnxruntime
    import polyconv_onnxruntime
    provider = polyconv_onnxruntime.options(threads(arguments.threads), **dict(option.split("=", 1) for option in arguments.option))
    return onnxruntime.InferenceSession(path, provider, enable_fallback=0)


SIDES = {"alone": alone, "with_polyconv": with_polyconv}


def feed_of(session, shape):
    return {session.get_inputs()[0].name: np.random.default_rng(0).standard_normal(shape, dtype=np.float32)}


def first_run(path, shape, side, arguments):
    """The seconds of a session's first run."""
    session = SIDES[side](path, arguments)
    feed = feed_of(session, shape)
    return timed(lambda: session.run(None, feed))[0]


def first_runs(path, shape, arguments):
    """Medians of five processes for each side, in turns."""
    took = {side: [] for side in SIDES}
    for _ in range(5):
        for side, kept in took.items():
            call = [sys.executable, os.path.abspath(__file__), f"{path}:{'x'.join(map(str, shape))}", "--threads", str(arguments.threads), "--first", side]
            for option in arguments.option:
                call += ["--option", option]
            kept.append(float(subprocess.run(call, check=True, capture_output=True, text=True).stdout))
    return [float(np.median(kept)) for kept in took.values()]


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.15, help="of a block, at least two runs")
    parser.add_argument("--option", action="append", default=[], help="of the provider, KEY=VALUE")
    parser.add_argument("--first", choices=sorted(SIDES), help="print the seconds of this side's first run, and nothing else")
    return parser.parse_args()


def times_in_turns(sessions, feed, arguments):
    """The seconds of each session's runs."""
    times = [[], []]
    for _ in range(arguments.blocks):
        for session, kept in zip(sessions, times):
            time.sleep(0.02)
            session.run(None, feed)
            session.run(None, feed)
            begin = len(kept)
            while len(kept) < begin + 2 or sum(kept[begin:]) < arguments.seconds:
                kept.append(timed(lambda s=session: s.run(None, feed))[0])
    return times


def main():
    import onnxruntime
    arguments = arguments_of()
    onnxruntime.set_default_logger_severity(3)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            path, shape = model(name, folder)
            if arguments.first:
                print(first_run(path, shape, arguments.first, arguments))
                continue
            first = first_runs(path, shape, arguments)
            sessions = [make(path, arguments) for make in SIDES.values()]
            feed = feed_of(sessions[0], shape)
            results = [session.run(None, feed)[0] for session in sessions]
            times = times_in_turns(sessions, feed, arguments)
            least, middle = [min(t) * 1e3 for t in times], [float(np.median(t)) * 1e3 for t in times]
            ratios.append(middle[0] / middle[1])
            print("%-20s ONNX Runtime %.2f ms (least %.2f, first %.1f), with polyconv %.2f ms (least %.2f, first %.1f): %.2f times as fast, "
                  "largest difference %.1e of %.1e" % (name, middle[0], least[0], first[0] * 1e3, middle[1], least[1], first[1] * 1e3,
                                                       ratios[-1], np.abs(results[1] - results[0]).max(), np.abs(results[0]).max()))
    if ratios:
        print("geometric mean %.3f" % np.exp(np.mean(np.log(ratios))))


if __name__ == "__main__":
    main()
