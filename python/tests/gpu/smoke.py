#!/usr/bin/env python3
"""For a machine with a GPU: is polyconv right on CUDA, through its own functions, PyTorch, JAX and CuPy?

    PYTHONPATH=build/python/python [POLYCONV_BACKEND_PATH=/abs/build/cuda/lib/polyconv] python3 python/tests/gpu/smoke.py [PART...] [--json checks.json]

Prints one line a check, PASS, SKIP or FAIL; exit code 1 where one failed. Parts are functions, whole, graphs, training, foreign, every_model and
large, by default all; every_model:NAME is one model of python/bench/models.py alone, large:cuda-tensor/*,cuda-direct/* the kernels of those plug-ins
instead of those that are chosen.
python/bench/whole_models.py has times and memory."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import importlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))  # layer_errors
import checks  # noqa: E402

PARTS = ("functions", "whole", "graphs", "training", "foreign", "every_model", "large")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--json", help="a file for each check's outcome and what it says")
    options = parser.parse_args()
    parts = options.part or PARTS
    for part in parts:
        if part.partition(":")[0] not in PARTS:
            parser.error(f"part is {part!r}, expected one of {', '.join(PARTS)}")
    for part in parts:
        name, _, which = part.partition(":")
        try:
            importlib.import_module(name).run(*which.split(",") if which else ())
        except Exception as error:  # something is missing that all its checks need
            checks.say("FAIL", part, f"{type(error).__name__}: {error}")
    failed = sum(outcome == "FAIL" for outcome, _, _ in checks.outcomes)
    print(f"{failed} failed")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([dict(zip(("outcome", "check", "note"), each)) for each in checks.outcomes], file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
