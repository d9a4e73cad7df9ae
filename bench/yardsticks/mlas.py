#!/usr/bin/env python3
"""Times ONNX Runtime's own CPU convolution (MLAS) and polyconv in turn, in one process, on f32 layers with channels first.

Each row is a layer of a suite at batch 1: median time of each side, and the median of the ratios of neighbouring samples
(MLAS over polyconv: above 1, polyconv is faster). What a call from Python takes by itself is measured on a convolution of
one element and left out of both. Needs numpy, onnx and onnxruntime, and the package polyconv (PYTHONPATH, or installed).
"""
# SPDX-License-Identifier: Apache-2.0

import argparse
import pathlib
import random
import re
import statistics
import sys
import time

SUITES = pathlib.Path(__file__).resolve().parent.parent / "suites"
ROUNDS, SAMPLE_SECONDS = 9, 2e-3
PAUSE_SECONDS = 0.02  # until the other side's workers, which wait awake, are asleep and leave their processors
ONE_ELEMENT = "fwd:n1,c1,k1,i1x1,f1x1"


class Layer:
    """A forward layer by its token, or None from `parse` where one side does not know it."""

    def __init__(self, token, fields):
        self.token, axes = token, len(fields["i"].split("x"))

        def numbers(name, default):
            values = [int(n) for n in fields.get(name, default).split("x")]
            return values * axes if len(values) == 1 else values

        self.channels, self.filters, self.groups = int(fields["c"]), int(fields["k"]), int(fields.get("g", "1"))
        self.image, self.kernel = numbers("i", ""), numbers("f", "1")
        self.stride, self.padding, self.dilation = numbers("s", "1"), numbers("p", "0"), numbers("d", "1")

    @classmethod
    def parse(cls, token):
        way, body = token.split(":")[:2]
        fields = {part[0]: part[1:] for part in body.split(",")}
        return cls(token, fields) if way == "fwd" and "/" not in body else None

    def gflop(self):
        flop = 2.0 * self.filters * self.channels / self.groups
        for i, f, s, p, d in zip(self.image, self.kernel, self.stride, self.padding, self.dilation):
            flop *= f * ((i + 2 * p - d * (f - 1) - 1) // s + 1)
        return flop * 1e-9


def layers_of(path, sample, seed, most_gflop):
    """The suite's layers at batch 1, each once; a random sample of them where `sample` is not 0."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    tokens = sorted({re.sub(r"n\d+,", "n1,", line, count=1) for line in lines if line and line[0] != "#"})
    layers = [layer for layer in map(Layer.parse, tokens) if layer and layer.gflop() <= most_gflop]
    random.Random(seed).shuffle(layers)
    return layers[:sample] if sample else layers


def aligned(shape):
    """An array that begins on a cache line, as both libraries' own allocators have them and numpy's has not."""
    import numpy

    count, line = int(numpy.prod(shape)), 64
    memory = numpy.empty(count * 4 + line, dtype=numpy.uint8)
    begin = -memory.ctypes.data % line
    return memory[begin : begin + count * 4].view(numpy.float32).reshape(shape)


def mlas_call(layer, x, w, threads):
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], kernel_shape=layer.kernel, strides=layer.stride, pads=layer.padding * 2,
        dilations=layer.dilation, group=layer.groups,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result = aligned(session.run(None, {"x": x})[0].shape)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(result))
    return (lambda: session.run_with_iobinding(binding)), result


def polyconv_call(layer, x, w, threads):
    import polyconv

    plan = polyconv.Plan(layer.token, threads=threads, kernel="threads/*")
    packed = w if plan.weights_format() == "raw" else plan.pack(w)
    options = {
        "stride": tuple(layer.stride), "padding": tuple(layer.padding), "dilation": tuple(layer.dilation),
        "groups": layer.groups, "threads": threads, "kernel": "threads/*",
    }  # fmt: skip
    out = aligned(polyconv.conv(x, packed, **options).shape)
    return (lambda: polyconv.conv(x, packed, out=out, **options)), out, plan.kernel


def sample(call, repeats):
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats * 1e6


def compare(layer, threads, idle=(0.0, 0.0)):
    """Microseconds of MLAS and of polyconv, the ratio, and polyconv's kernel; ValueError where results differ."""
    import numpy

    draw = numpy.random.default_rng(1)
    x = aligned((1, layer.channels, *layer.image))
    x[...] = draw.standard_normal(x.shape, dtype=numpy.float32)
    w = draw.standard_normal((layer.filters, layer.channels // layer.groups, *layer.kernel), dtype=numpy.float32)
    theirs, wanted = mlas_call(layer, x, w, threads)
    ours, got, kernel = polyconv_call(layer, x, w, threads)
    theirs()
    ours()
    if not numpy.allclose(got, wanted, rtol=1e-3, atol=1e-3 * max(1.0, float(numpy.abs(wanted).max()))):
        raise ValueError("the two results differ")
    repeats = [max(1, int(SAMPLE_SECONDS * 1e6 / max(sample(call, 1), 0.1))) for call in (theirs, ours)]

    def turn(call, count, alone):
        if threads > 1:
            time.sleep(PAUSE_SECONDS)
            call()
        return sample(call, count) - alone

    rounds = [(turn(theirs, repeats[0], idle[0]), turn(ours, repeats[1], idle[1])) for _ in range(ROUNDS)]
    rounds = [(max(a, 0.1), max(b, 0.1)) for a, b in rounds]  # of less nothing is known
    medians = [statistics.median(side) for side in zip(*rounds)]
    return medians[0], medians[1], statistics.median(a / b for a, b in rounds), kernel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=pathlib.Path, default=SUITES / "census.txt", help="tokens, one a line (%(default)s)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many layers drawn at random (all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument("--most-gflop", type=float, default=2.0, metavar="G", help="leaves out larger layers (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="starts no layer after so long")
    given = parser.parse_args()
    if given.threads < 1 or given.sample < 0:
        parser.error("--threads is a number from 1, --sample one from 0")
    try:
        import onnx
        import onnxruntime
        import polyconv
    except ImportError as missing:
        parser.error(f"{missing}: pip install numpy onnx onnxruntime, and polyconv on PYTHONPATH")
    print(f"ONNX Runtime {onnxruntime.__version__}, onnx {onnx.__version__}, polyconv {polyconv.__version__}; "
          f"{given.threads} threads")  # fmt: skip
    idle = compare(Layer.parse(ONE_ELEMENT), given.threads)[:2]
    print(f"a call alone: MLAS {idle[0]:.1f} us, polyconv {idle[1]:.1f} us; left out below")
    rows, begin = [], time.monotonic()
    layers = layers_of(given.suite, given.sample, given.seed, given.most_gflop)
    for layer in layers:
        if time.monotonic() - begin > given.seconds:
            print(f"stopped after {len(rows)} of {len(layers)} layers: --seconds", file=sys.stderr)
            break
        try:
            rows.append((*compare(layer, given.threads, idle), layer.token))
        except Exception as problem:  # a row that one side refuses is named, and is none
            print(f"left out: {layer.token}: {problem}", file=sys.stderr)
    rows.sort(key=lambda row: row[2])
    for theirs, ours, ratio, kernel, token in rows:
        print(f"{ratio:6.2f}  MLAS {theirs:9.1f} us  polyconv {ours:9.1f} us  {kernel}  {token}")
    if rows:
        ratios = [row[2] for row in rows]
        total = sum(row[0] for row in rows) / sum(row[1] for row in rows)
        print(f"{len(rows)} layers: geometric mean {statistics.geometric_mean(ratios):.3f}, all time {total:.3f}, "
              f"below 0.85 {sum(r < 0.85 for r in ratios)}, least {ratios[0]:.2f}")  # fmt: skip
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
