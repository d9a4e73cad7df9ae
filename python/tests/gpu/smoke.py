#!/usr/bin/env python3
"""For a machine with a GPU: is polyconv right on CUDA, through its own functions, PyTorch, JAX and CuPy?

    PYTHONPATH=build/python/python [POLYCONV_BACKEND_PATH=/abs/build/cuda/lib/polyconv] python3 python/tests/gpu/smoke.py [PART...]

Prints one line a check, PASS, SKIP or FAIL; exit code 1 where one failed. Parts are functions, whole, graphs and foreign, by default all.
python/bench/whole_models.py has times and memory."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import importlib
import sys

import checks

PARTS = ("functions", "whole", "graphs", "foreign")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parts = parser.parse_args().part or PARTS
    for part in parts:
        if part not in PARTS:
            parser.error(f"part is {part!r}, expected one of {', '.join(PARTS)}")
    for part in parts:
        importlib.import_module(part).run()
    print(f"{len(checks.failures)} failed")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
