#!/usr/bin/env bash
# Builds the wheel polyconv-onnxruntime around the library of a build folder and runs its tests with the releases of ONNX Runtime that
# PyPI has; says *skipped* where PyPI cannot be reached:
#   integrations/onnxruntime/check.sh [BUILD_FOLDER] [PYTEST ARGUMENT...]
# RUNTIMES are the releases, by default the oldest that the provider serves, one between, and the newest. MODELS=1 installs the real
# models too (rapidocr, silero-vad). PYTHON is the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tree=$(realpath "${1:-build/cpu}")
shift $(($# > 0))
python=${PYTHON:-/usr/bin/python3}
work=$PWD/build/onnxruntime-check
rm -rf "$work"
mkdir -p "$work"

"$python" -m venv "$work/env"
pip=("$work/env/bin/pip" --disable-pip-version-check --quiet)
if ! "${pip[@]}" install onnx numpy pytest onnxruntime >"$work/install.log" 2>&1; then
  echo "integrations/onnxruntime: skipped, pip gets no onnxruntime here: $(tail -1 "$work/install.log")"
  exit 0
fi
if [[ ${MODELS:-0} == 1 ]]; then
  "${pip[@]}" install rapidocr-onnxruntime
  "${pip[@]}" install --no-deps silero-vad
fi
"${pip[@]}" wheel --no-deps --wheel-dir "$work" --config-settings=cmake.define.POLYCONV_PYTHON_TREE="$tree" \
  --config-settings=cmake.define.POLYCONV_WARNINGS_AS_ERRORS="${POLYCONV_WARNINGS_AS_ERRORS:-OFF}" integrations/onnxruntime \
  >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log"; exit 1; }
wheel=$(find "$work" -maxdepth 1 -name 'polyconv_onnxruntime-*.whl')
"${pip[@]}" install --no-deps "$wheel"
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
tests=$PWD/integrations/onnxruntime/tests
cd "$work" # so that the package comes from the environment and not from the source
for runtime in ${RUNTIMES:-1.24.4 1.28.0 newest}; do
  folder=
  if [[ $runtime != newest ]]; then
    folder=$work/$runtime
    "${pip[@]}" install --no-deps --target "$folder" "onnxruntime==$runtime" ||
      { echo "ONNX Runtime $runtime: skipped, not to be had for this Python"; continue; }
  fi
  echo "ONNX Runtime $(PYTHONPATH=$folder env/bin/python -c 'import onnxruntime; print(onnxruntime.__version__)')"
  PYTHONPATH=$folder env/bin/python -m pytest -p no:cacheprovider -W ignore -q "$@" "$tests"
done

# A session on a GPU, where the build folder has the fake one: with the newest runtime all but the models, with the others what is theirs.
fake=$tree/tests/fake_backends/gpu/libpolyconv_fake_gpu.so
[[ -e $fake ]] || { echo "integrations/onnxruntime: no fake GPU in $tree, so sessions on one are skipped"; exit 0; }
lib=$(env/bin/python -c 'import os, polyconv_onnxruntime as p; print(os.path.dirname(p.library()))')
cp -r "$lib" "$work/gpu"
cp "$fake" "$work/gpu/polyconv/"
ln -s polyconv/libpolyconv_fake_gpu.so "$work/gpu/libpolyconv_onnxruntime_cuda.so"
export POLYCONV_ONNXRUNTIME_LIBRARY=$work/gpu/libpolyconv_onnxruntime.so POLYCONV_TEST_DEVICE=cuda LD_LIBRARY_PATH=$work/gpu
for runtime in ${RUNTIMES:-1.24.4 1.28.0 newest}; do
  folder=$work/$runtime
  [[ $runtime == newest ]] && folder=
  [[ -z $folder || -d $folder ]] || continue
  echo "a GPU, ONNX Runtime $(PYTHONPATH=$folder env/bin/python -c 'import onnxruntime; print(onnxruntime.__version__)')"
  only=("$tests/test_gpu.py")
  [[ -z $folder ]] && only+=("$tests"/test_{layers,operators,bodies,node_cases}.py)
  PYTHONPATH=$folder env/bin/python -m pytest -p no:cacheprovider -W ignore -q "$@" "${only[@]}"
done
