#!/usr/bin/env python3
# planted.py - the oracle is itself checked: kernels with one defect each (tests/fake_backends) must be found, each as what
# it is, and the correct ones beside them must not.
# SPDX-License-Identifier: Apache-2.0
"""planted.py LIBRARY FAULTY: `LIBRARY` as oracle.py's --library, `FAULTY` the fake backend's shared library."""
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"planted.py: skipped: {missing} (Debian: python3-numpy)")
    sys.exit(77)

import binding  # noqa: E402
import case as cases  # noqa: E402
import shrink  # noqa: E402
from worker import Worker  # noqa: E402

PLAIN = "fwd:n2,c8,k5,i9x11,f3x3,p1:bias"
STRIDED = "fwd:n2,c3,k4,i6x5,f3x3,p1:ys=400.70.11.2"
ONE_TAP = "fwd:n2,c3,k4,i6x5,f1x1"
CHAIN = "fwd:n1,c20,k3,i9x11,f3x3,p1:{0}:bias+relu fwd:n1,c3,k2,i9x11,f3x3,p1:{0}:bias"
FLOATS, HALVES = CHAIN.format("f32"), CHAIN.format("f16")

# Kernel, problem, mode, the kinds of finding that say what is wrong.
PLANTED = [
    ("dropped_last_tap", PLAIN, "exact", "wrong"), ("dropped_last_tap", PLAIN, "random", "wrong"),
    ("dropped_last_channel", PLAIN, "exact", "wrong"), ("dropped_last_channel", PLAIN, "random", "wrong"),
    ("swapped_r_and_s", PLAIN, "exact", "wrong"), ("shifted_border", PLAIN, "random", "wrong"),
    ("f16_sums", PLAIN, "random", "wrong"),
    ("row_past_the_end", PLAIN, "random ends=0", "memory"), ("row_past_the_end", PLAIN, "random ends=255", "crash"),
    ("stale_workspace", PLAIN, "random", "wrong"), ("writes_gaps", STRIDED, "random", "memory"),
    ("writes_input", PLAIN, "random", "memory wrong"), ("nan_to_zero", ONE_TAP, "special", "wrong"),
    ("skips_last_element", PLAIN, "exact", "wrong"), ("overruns_packed", PLAIN, "random", "memory crash"),
    ("chain_computes_padding", FLOATS, "random", "wrong"), ("chain_computes_padding", HALVES, "exact", "wrong"),
    ("chain_short_halo", FLOATS, "exact", "wrong"), ("chain_unrounded", HALVES, "exact", "wrong"),
    ("chain_drops_inner_bias", FLOATS, "random", "wrong"),
]
CORRECT = [("correct", PLAIN, "random"), ("correct", PLAIN, "exact"), ("correct", PLAIN, "wide"),
           ("correct", STRIDED, "random ends=255"), ("correct", ONE_TAP, "special"),
           ("chain_correct", FLOATS, "random"), ("chain_correct", HALVES, "exact")]
SEEDS = range(4, 10)  # what depends on where a NaN falls is given a few chances


def verdicts(worker, kernel, problem, mode):
    settings = f"kernel=fake-faulty/{kernel}@only math=fast mode={mode}"
    for seed in SEEDS:
        yield worker.run(f"{problem} {settings} seed={seed}")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    library, failures = binding.find_library(sys.argv[1]), []
    worker = Worker(library, [sys.argv[2]])
    for kernel, problem, mode in CORRECT:
        for verdict in verdicts(worker, kernel, problem, mode):
            if verdict.kind != "good":
                failures.append(f"{kernel}, {mode}: {verdict.kind}: {verdict.sentence}")
    for kernel, problem, mode, kinds in PLANTED:
        found = next((v for v in verdicts(worker, kernel, problem, mode) if v.finding), None)
        said = f"{found.kind}: {found.sentence}" if found else "nothing found"
        print(f"{kernel:24} {mode:16} {said}")
        if found is None or found.kind not in kinds.split():
            failures.append(f"{kernel}, {mode}: {said}; expected {kinds}")
    failures += shrinks(worker, library)
    other = Worker(library, [sys.argv[2]])
    other.run(PLAIN)
    worker.close()  # while another child runs, which must not keep this one waiting for its end
    other.close()
    print("\n".join(["planted.py: FAILED"] + failures) if failures else "planted.py: every planted fault was found")
    return 1 if failures else 0


def shrinks(worker, library):
    """A finding becomes one that a person reads at a glance."""
    big = ("fwd:n3,c8,k6,g2,i9x11,f3x3,s1x2,p1:nhwc:krsc:bias+relu kernel=fake-faulty/dropped_last_channel@only "
           "seed=5 threads=2")
    case, verdict = shrink.shrink(lambda one: worker.run(one.text()), cases.parse(binding.Library(library), big),
                                  worker.run(big), 30)
    print(f"shrunk to {case.text()}: {verdict.sentence}")
    layer = case.layers[0]
    small = layer.batch * layer.in_channels * layer.out_channels <= 8 and max(layer.input_size) <= 3 and not layer.bias
    return [] if small else [f"was left as large as {case.text()}"]


if __name__ == "__main__":
    sys.exit(main())
