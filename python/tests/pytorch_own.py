#!/usr/bin/env python3
"""PyTorch's own tests of convolutions, once as they are and once with polyconv.torch.enable() on: which differ?

    PYTHONPATH=build/python/python python3 python/tests/pytorch_own.py [--file test_convolution.py] [--select EXPRESSION]

The file is test/nn/test_convolution.py of the version of PyTorch that is installed (before 2.0: test/test_nn.py, with --select
conv). It is not part of this repository: give the path of one, or leave --file out and it is fetched from GitHub for the run.
The tests need pytest, expecttest and hypothesis. Prints the counts of both runs and each test whose outcome differs, with the
end of its message; exit code 1 where a test that passed does not."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree

# A plugin of pytest: on before the first test, and what fell through, when all are over.
PLUGIN = """
import polyconv.torch

def pytest_sessionstart(session):
    polyconv.torch.enable()

def pytest_sessionfinish(session, exitstatus):
    rows = polyconv.torch.report()
    info = polyconv.torch.cache_info()
    print()
    print('polyconv:', info)
    reasons = {}
    for row in rows:
        if row.kernel == 'PyTorch':
            key = row.note[:100]
            reasons[key] = reasons.get(key, 0) + row.calls
    for reason, calls in sorted(reasons.items(), key=lambda each: -each[1])[:12]:
        print(f'polyconv: {calls} calls left to PyTorch: {reason}')
"""


def fetched(folder):
    import torch

    version = torch.__version__.split("+")[0]
    url = f"https://raw.githubusercontent.com/pytorch/pytorch/v{version}/test/nn/test_convolution.py"
    target = folder / "test_convolution.py"
    try:
        urllib.request.urlretrieve(url, target)
    except OSError as error:
        sys.exit(f"{url}: {error}; give the file with --file")
    return target


def run(file, select, folder, on):
    """Outcomes by test, with the end of the message, and what the plugin printed."""
    report = folder / f"{'polyconv' if on else 'pytorch'}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-W", "ignore", "--tb=short"]
    command += ["-k", select] if select else []
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    if on:
        (folder / "polyconv_on.py").write_text(PLUGIN, encoding="utf-8")
        command += ["-p", "polyconv_on", "-s"]
    done = subprocess.run([*command, str(file)], cwd=folder, env=environment, capture_output=True, text=True)
    if not report.exists():
        sys.exit(f"pytest gave no report:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    outcomes = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name')}"
        kinds = {child.tag: child for child in case}
        outcome = next((kind for kind in ("failure", "error", "skipped") if kind in kinds), "passed")
        node = kinds.get(outcome)
        message = "" if node is None else (node.text or node.get("message") or "").strip()
        outcomes[name] = (outcome, message)
    return outcomes, [line for line in done.stdout.splitlines() if line.startswith("polyconv:")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--file", type=pathlib.Path)
    parser.add_argument("--select", default="", help="pytest's -k")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        file = options.file.resolve() if options.file else fetched(folder)
        theirs, _ = run(file, options.select, folder, False)
        ours, notes = run(file, options.select, folder, True)
    for name, outcomes in (("PyTorch", theirs), ("polyconv", ours)):
        counts = collections.Counter(outcome for outcome, _ in outcomes.values())
        print(f"{name:9} {len(outcomes)} tests: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    print("\n".join(notes))
    if not any(outcome == "passed" for outcome, _ in theirs.values()):
        sys.exit("no test passes without polyconv: is the file of this version of PyTorch?\n" + next(iter(theirs.values()), ("", ""))[1][-1500:])
    worse = 0
    for test in sorted(set(theirs) | set(ours)):
        before, after = theirs.get(test, ("missing", ""))[0], ours.get(test, ("missing", ""))
        if before != after[0]:
            worse += before == "passed" and after[0] != "passed"
            print(f"\n{test}: {before} -> {after[0]}\n    " + "\n    ".join(after[1].splitlines()[-8:]))
    print(f"\n{worse} tests that pass without polyconv do not pass with it")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
