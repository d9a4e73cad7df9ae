#!/usr/bin/env bash
# Builds the wheel around the library of a build folder, installs it in fresh environments and runs the tests there:
#   python/check.sh [BUILD_FOLDER] [PYTEST ARGUMENT...]
# PYTHON is the interpreter, by default Debian's own, whose NumPy, PyTorch and pytest the first environment sees. The second
# sees nothing of the system: current NumPy, JAX and what the notebook needs, from PyPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tree=$(realpath "${1:-build/cpu}")
shift $(($# > 0))
python=${PYTHON:-/usr/bin/python3}
work=build/python-check
rm -rf "$work"
mkdir -p "$work"

"$python" -m venv --system-site-packages "$work/env"
# As from PyPI: from the source archive, and not from what lies around it here.
"$work/env/bin/pip" install --quiet --disable-pip-version-check scikit-build-core nanobind
"$work/env/bin/python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' "$work" >"$work/sdist.log"
tar -xzf "$work"/polyconv-*.tar.gz -C "$work"
source=$(find "$work" -maxdepth 1 -type d -name 'polyconv-*')
"$work/env/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" \
  --config-settings=cmake.define.POLYCONV_PYTHON_TREE="$tree" \
  --config-settings=cmake.define.POLYCONV_WARNINGS_AS_ERRORS="${POLYCONV_WARNINGS_AS_ERRORS:-OFF}" "$source" >"$work/wheel.log" 2>&1 ||
  { cat "$work/wheel.log"; exit 1; }
# Without the built library the archive's own would be compiled, with the settings of pyproject.toml: a quarter of an hour or more, so that
# it is configured alone.
settings=$("$work/env/bin/python" - "$source/pyproject.toml" <<'END'
import sys
try:
    import tomllib
except ImportError:  # before 3.11; comes with scikit-build-core
    import tomli as tomllib
table = tomllib.load(open(sys.argv[1], "rb"))["tool"]["scikit-build"]["cmake"]["define"]
print("\n".join(f"-D{name}={value}" for name, value in table.items()))
END
)
mapfile -t settings <<<"$settings"
cmake -G Ninja -S "$source" -B "$work/configured" -DPython_EXECUTABLE="$(realpath "$work")/env/bin/python" "${settings[@]}" \
  >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
wheel=$(find "$work" -maxdepth 1 -name 'polyconv-*.whl')
"$work/env/bin/pip" install --quiet --disable-pip-version-check --no-deps "$wheel"
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
# From another folder, so that the package comes from the environment and not from the source.
tests=$PWD/python/tests
cd "$work"
# Threads of OpenMP that wait asleep: awake ones would hinder each other where something else wants the processors too.
export OMP_WAIT_POLICY=passive
OMP_NUM_THREADS=2 env/bin/python -m pytest -p no:cacheprovider -q "$@" "$tests"

"$python" -m venv empty
empty/bin/pip install --quiet --disable-pip-version-check "$(basename "$wheel")" jax matplotlib nbconvert ipykernel pytest
empty/bin/python -m pytest -p no:cacheprovider -q "$@" "$tests"/test_{functions,arrays,jax,package,stubs}.py "$tests"/test_examples.py
