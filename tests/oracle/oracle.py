#!/usr/bin/env python3
# oracle.py - random problems against an oracle of its own, see README.md.
# SPDX-License-Identifier: Apache-2.0
"""Runs random convolutions with polyconv and compares each with NumPy, in guarded memory, in a child process.

oracle.py --count 2000                      the default choice and kernels that accept, by turns
oracle.py --kernel 'openmp/dense*'          these kernels alone
oracle.py --case 'TOKEN [name=value ...]'   one case again, as a finding prints it
oracle.py --seed 7 --first 1234 --count 1   one case of a run again
"""
import argparse
import collections
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"oracle.py: skipped: {missing} (Debian: python3-numpy)")
    sys.exit(77)

import binding  # noqa: E402
import case as cases  # noqa: E402
import others  # noqa: E402
import shrink  # noqa: E402
from worker import Worker  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.environ.get("POLYCONV_BINARY_DIR", "build/cpu"), metavar="PATH",
                        help="libpolyconv.so or a build folder (default: build/cpu)")
    parser.add_argument("--backend", action="append", default=[], metavar="PATH", help="one more backend to load")
    parser.add_argument("--kernel", default="", metavar="GLOB", help="kernels to force; the default is any")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="problems (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other problems (default: 1)")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first problem (default: 0)")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="S", help="seconds to stop after")
    parser.add_argument("--edges", type=float, default=8, metavar="P",
                        help="percent of problems with sizes at the ends of 64 bits (default: 8)")
    parser.add_argument("--findings", type=int, default=10, metavar="N", help="findings to stop after (default: 10)")
    parser.add_argument("--shrink", type=float, default=60, metavar="S",
                        help="seconds to make a finding smaller (default: 60; 0: leave it)")
    parser.add_argument("--case", metavar="TEXT", help="run this case alone")
    parser.add_argument("--others", action="store_true",
                        help="compare the oracle with SciPy, PyTorch and ONNX Runtime, without polyconv")
    parser.add_argument("--list", action="store_true", help="tell at the end how often each kernel ran")
    return parser.parse_args()


def tell(verdict, text):
    print(f"{verdict.kind}: {verdict.sentence}\n  kernel: {verdict.kernel or 'not known'}\n  case: {text}", flush=True)


def make_smaller(options, worker, text, verdict):
    """Prints the smallest case with the same kind of finding."""
    library = binding.Library(options.library)  # to read tokens; nothing is planned or run in this process
    try:
        case = cases.parse(library, text)
    except binding.Failed:
        return  # the finding is its token
    case, small = shrink.shrink(lambda one: worker.run(one.text()), case, verdict, options.shrink)
    if case.text() != text:
        tell(cases.Verdict(small.kind, "smaller: " + small.sentence, small.kernel), case.text())


def one_case(options, worker):
    verdict = worker.run(options.case)
    tell(verdict, options.case)
    return 1 if verdict.finding else 0


def many_cases(options, worker, began):
    kinds, kernels, done = collections.Counter(), collections.Counter(), 0
    indices = range(options.first, options.first + options.count)
    shrinker = Worker(options.library, options.backend)
    for index, verdict, text in worker.run_many(options.seed, indices, options.kernel, options.edges):
        kinds[verdict.kind] += 1
        kernels[verdict.kernel.split(" + ")[0].split("@")[0] or "none"] += 1
        done += 1
        if done % 10000 == 0:
            print(f"oracle.py: {done} problems in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if verdict.finding:
            print(f"--seed {options.seed} --first {index}", end=" ")
            tell(verdict, text)
            if options.shrink > 0 and ":" in text:
                make_smaller(options, shrinker, text, verdict)
        findings = sum(n for kind, n in kinds.items() if cases.Verdict(kind).finding)
        if findings >= options.findings or time.monotonic() - began > options.time_limit:
            break
    shrinker.close()
    if options.list:
        print("\n".join(f"{count:8} {name}" for name, count in kernels.most_common()))
    seconds = time.monotonic() - began
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"oracle.py: {done} problems in {seconds:.1f} s ({done / seconds:.0f} a second): {told}; seed {options.seed}")
    if done and not kinds["good"] and not findings:
        print(f"oracle.py: no problem was run: none is taken by '{options.kernel}'")
        return 1
    return 1 if findings else 0


def main():
    began, options = time.monotonic(), arguments()
    if options.others:
        return 1 if others.compare(options.count, options.seed) else 0
    options.library = binding.find_library(options.library)
    worker = Worker(options.library, options.backend)
    try:
        return one_case(options, worker) if options.case else many_cases(options, worker, began)
    finally:
        worker.close()


if __name__ == "__main__":
    sys.exit(main())
