#!/usr/bin/env python3
"""Counts, in the objects of backends/cpu of a build for aarch64, what the innermost loops of f32 are made of:

    tests/cross/inner_loops.py BUILD_FOLDER [KERNEL...]

For each kernel and pass the loop that has most multiply-adds of f32 vectors for its length: its multiply-adds, loads,
copies of a scalar into every lane, accesses to the stack, and all its instructions; and the GFLOP/s that a core could
reach with it, with its share of the core's peak. docs/performance/arm.md is written from it. Nothing is run.
SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys
import typing

PASSES = ("neon", "sve256", "sve512")
FMA = re.compile(r"^fm(la|ls|ad|sb)\s+(v\d+\.4s|z\d+\.s)")
LOAD = re.compile(r"^(ld[rpu]|ld1|ldnt1|ldff1)")
COPY = re.compile(r"^(dup\s+v|mov\s+z\d+\.s, s\d)")
BRANCH = re.compile(r"^(b\.\w+|cbn?z|tbn?z|b)\s.*?\b([0-9a-f]+) <")


def functions(objdump, path):
    """Each function of an object as a list of (address, instruction)."""
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(path)], check=True, capture_output=True, text=True
    ).stdout
    body = []
    for line in text.splitlines():
        if re.match(r"^[0-9a-f]+ <.*>:$", line):
            if body:
                yield body
            body = []
        elif match := re.match(r"^\s*([0-9a-f]+):\t(.*)$", line):
            body.append((int(match[1], 16), match[2].replace("\t", " ")))
    if body:
        yield body


def innermost(body):
    """The loops of a function that hold no other: what lies between a backward branch and its target."""
    ends = []
    for index, (address, text) in enumerate(body):
        match = BRANCH.match(text)
        if match and int(match[2], 16) <= address:
            ends.append((int(match[2], 16), address, index))
    first = {address: index for index, (address, _) in enumerate(body)}
    for begin, end, index in ends:
        holds_another = any((b, e) != (begin, end) and begin <= b and e <= end for b, e, _ in ends)
        if begin in first and not holds_another:
            yield [text for _, text in body[first[begin] : index + 1]]


def counted(loop):
    """Multiply-adds, loads, copies, stack accesses, instructions. A pair counts as the two loads that it is."""
    loads = sum((2 if t.startswith("ldp") else 1) for t in loop if LOAD.match(t) and "[sp" not in t)
    stack = sum(1 for t in loop if "[sp" in t)
    copies = sum(1 for t in loop if COPY.match(t))
    return sum(1 for t in loop if FMA.match(t)), loads, copies, stack, len(loop)


class Core(typing.NamedTuple):
    """What a core takes in a cycle, as LLVM's scheduling models have it (docs/performance/arm.md names them)."""

    vectors: int  # instructions on f32 vectors
    loads: int
    instructions: int
    lanes: int  # f32 numbers in a vector
    ghz: float  # of the machines that docs/performance/arm.md names

    def share(self, counts):
        """The part of the core's rate of multiply-adds that a loop could reach, if nothing waits."""
        fma, loads, copies, stack, everything = counts
        busy = (fma + copies) / self.vectors, (loads + stack) / self.loads, everything / self.instructions
        return fma / self.vectors / max(busy)

    def gflops(self, counts):
        return self.share(counts) * 2 * self.vectors * self.lanes * self.ghz


CORES = {
    ("V1", "neon"): Core(4, 3, 8, 4, 2.6),
    ("N2", "neon"): Core(2, 3, 5, 4, 3.0),
    ("V2", "neon"): Core(4, 3, 6, 4, 2.8),
    ("V1", "sve256"): Core(2, 2, 8, 8, 2.6),
}


def best(objdump, path):
    """Of the loops of at least ten multiply-adds the one that has most of them for its length, weighted by their number."""
    found = [counted(loop) for body in functions(objdump, path) for loop in innermost(body)]
    return max((c for c in found if c[0] >= 10), key=lambda c: c[0] * c[0] / c[4], default=None)


def main():
    build = pathlib.Path(sys.argv[1])
    cache = (build / "CMakeCache.txt").read_text()
    objdump = re.search(r"^CMAKE_OBJDUMP:FILEPATH=(.*)$", cache, re.M)[1]
    root = build / "backends/cpu/CMakeFiles"
    names = sys.argv[2:] or sorted(p.stem.split(".")[0] for p in (root / "polyconv_cpu_neon.dir/kernels").glob("*.o"))
    print("| kernel | pass | fma | loads | copies | stack | instructions | fma/load | fma/instr. | predicted |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for kernel in names:
        for isa in PASSES:
            path = root / f"polyconv_cpu_{isa}.dir/kernels/{kernel}.cpp.o"
            counts = best(objdump, path) if path.exists() else None
            if counts is None:
                continue
            fma, loads, _, _, everything = counts
            predicted = [
                f"{name} {core.gflops(counts):.0f} ({100 * core.share(counts):.0f} %)"
                for (name, own), core in CORES.items()
                if own == isa
            ]
            ratios = f"{fma / max(loads, 1):.2f} | {fma / everything:.2f}"
            print(f"| `{kernel}` | {isa} | {' | '.join(map(str, counts))} | {ratios} | {', '.join(predicted)} |")


if __name__ == "__main__":
    main()
