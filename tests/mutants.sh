#!/usr/bin/env bash
# Plants defects, one at a time, and expects a red test for each: the tests are themselves tested.
#   tests/mutants.sh [NAME...]        all of tests/mutants/list.txt where none is named
# Works on a copy of the tree in BUILDS/mutants (build/mutants), which it builds once, and once for each preset that a mutant
# is planted on: another processor, whose compiler and emulator it needs. A mutant whose place is not there any more, or that
# does not compile, is an error: the list has to be mended. Prints a table; exits 1 where a mutant survives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 - "${BUILDS:-build}/mutants" "$@" <<'PYTHON'
import os, pathlib, shutil, subprocess, sys, time

KEYS = ("name", "file", "old", "new", "build", "red", "case", "lock", "on")


def read_list(path):
    mutants, current = [], {}
    for line in path.read_text().splitlines() + [""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if current:
                mutants.append(current)
            current = {}
            continue
        key, value = line.split(None, 1)
        if key not in KEYS:
            sys.exit(f"mutants: '{key}' is no key; expected one of {', '.join(KEYS)}")
        current[key] = value.strip()
    return mutants


def command(arguments, log, environment=None):
    with open(log, "ab") as out:
        return subprocess.run(arguments, stdout=out, stderr=subprocess.STDOUT, env=environment).returncode


def copy_tree(source, target):
    """Keeps the times of unchanged files, so that a second run builds only what changed."""
    target.mkdir(parents=True, exist_ok=True)
    skipped = ("build", ".git", ".cache", ".carry")
    for entry in sorted(source.iterdir()):
        if entry.name in skipped or entry.name.startswith("build-"):
            continue
        if entry.is_dir():
            shutil.copytree(entry, target / entry.name, dirs_exist_ok=True, symlinks=True)
        else:
            shutil.copy2(entry, target / entry.name)


class Workshop:
    """The copy of the tree, built for this machine or, by a preset of that name, for another processor."""

    def __init__(self, folder, preset):
        self.tree = folder / "tree"
        self.build = folder / ("build" + (f"-{preset}" if preset else ""))
        self.log = folder / ("log" + (f"-{preset}" if preset else ""))
        self.log.write_bytes(b"")
        self.preset = preset

    def configure(self):
        how = ["--preset", self.preset] if self.preset else ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
        options = os.environ.get("MUTANTS_CMAKE", "").split()
        return command(["cmake", *how, "-S", str(self.tree), "-B", str(self.build), *options], self.log) == 0

    def make(self, *targets):
        return command(["cmake", "--build", str(self.build), "--target", *targets], self.log)

    def run_tests(self, expression, case):
        """True where one of the tests fails; None where the expression names no test."""
        listed = subprocess.run(["ctest", "--test-dir", str(self.build), "-N", "-R", expression],
                                capture_output=True, text=True).stdout
        if "Total Tests: 0" in listed:
            return None
        if case:  # only the kernels of that name: conformance in seconds
            test = self.build / "tests" / "conformance_test"
            environment = dict(os.environ, POLYCONV_CONFORMANCE=case, POLYCONV_CONFORMANCE_RANDOM="20",
                               POLYCONV_SOURCE_DIR=str(self.tree), POLYCONV_BINARY_DIR=str(self.build))
            if test.exists() and "conformance" in expression and command([str(test)], self.log, environment) != 0:
                return True
            expression = "|".join(part for part in expression.strip("^()$").split("|") if "conformance" not in part)
            if not expression:
                return False
            expression = f"^({expression})$"
        return command(["ctest", "--test-dir", str(self.build), "--output-on-failure", "-R", expression], self.log) != 0

    def try_mutant(self, mutant):
        path = self.tree / mutant["file"]
        whole, times = path.read_text(), path.stat()
        built = True
        if whole.count(mutant["old"]) != 1:
            return f"STALE: {mutant['file']} holds the place {whole.count(mutant['old'])} times"
        try:
            path.write_text(whole.replace(mutant["old"], mutant["new"]))
            built = self.make(*mutant["build"].split()) == 0
            if not built:
                return "killed, does not build" if "lock" in mutant else "DOES NOT COMPILE"
            red = self.run_tests(mutant["red"], mutant.get("case"))
            return "STALE: no such test" if red is None else "killed" if red else "SURVIVED"
        finally:
            path.write_text(whole)
            if built:
                self.make(*mutant["build"].split())  # else the next one would be killed by this one's remains
            else:
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # nothing was made of it


def missing(shop):
    """What a preset needs and this machine has not; "" where all is there."""
    if not shop.preset:
        return ""
    toolchain = shop.preset.removesuffix("-cut")
    text = (shop.tree / f"cmake/toolchains/{toolchain}.cmake").read_text()
    triplet = text.split("POLYCONV_TRIPLET ")[1].split(")")[0]
    emulator = text.split("POLYCONV_EMULATOR ")[1].split(")")[0].strip('"')
    wanted = [f"{triplet}-g++", *([emulator] if emulator else [])]
    return ", ".join(program for program in wanted if shutil.which(program) is None)


def prepare(shop, mutants):
    """Builds what the mutants need, for this machine all of it, and sees that the tests are green."""
    targets = sorted({target for mutant in mutants for target in mutant["build"].split()}) if shop.preset else ["all"]
    if not shop.configure() or shop.make(*targets):
        sys.exit(f"mutants: the tree does not build as it is; {shop.log} says why")
    everyone = "|".join(f"({mutant['red']})" for mutant in mutants)
    if command(["ctest", "--test-dir", str(shop.build), "--output-on-failure", "-R", everyone], shop.log) != 0:
        sys.exit(f"mutants: the tests are red before anything is planted; {shop.log} says which")


def main():
    source, folder = pathlib.Path.cwd(), pathlib.Path(sys.argv[1]).resolve()
    mutants = read_list(source / "tests/mutants/list.txt")
    chosen = [m for m in mutants if not sys.argv[2:] or any(word in m["name"] for word in sys.argv[2:])]
    if not chosen:
        sys.exit(f"mutants: none is called {' '.join(sys.argv[2:])}")
    copy_tree(source, folder / "tree")
    planted = survivors = 0
    for preset in sorted({mutant.get("on", "") for mutant in chosen}):
        shop = Workshop(folder, preset)
        here = [mutant for mutant in chosen if mutant.get("on", "") == preset]
        if lacking := missing(shop):
            for mutant in here:
                print(f"{mutant['name']:58} not planted: {lacking} missing", flush=True)
            continue
        prepare(shop, here)
        for mutant in here:
            start = time.time()
            verdict = shop.try_mutant(mutant)
            planted += 1
            survivors += not verdict.startswith("killed")
            print(f"{mutant['name']:58} {verdict:28} {time.time() - start:5.0f} s", flush=True)
    print(f"{len(chosen)} chosen, {planted} planted, {planted - survivors} killed")
    sys.exit(1 if survivors else 0)


main()
PYTHON
