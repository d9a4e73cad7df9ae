#!/usr/bin/env bash
# on_device.sh [FOLDER] - everything that this repository claims about a GPU, on the machine that has one: builds the CUDA
# plug-ins, runs the tests, the conformance of every plug-in, compute-sanitizer over the tiny suite, a short table of times,
# and with cuDNN the bars of bench/expect/h200-ladder.csv. Logs go to FOLDER (default: build/on_device/logs), and packed to
# $OUT where that is set; the summary comes last. Within 8 minutes on 16 cores.
#   ON_DEVICE_PARTS="build tests conformance sanitize bench expect" chooses parts; CUDNN_ROOT, the folder that holds cuDNN's
#   include and lib, adds the cudnn backend.
set -u
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$source_dir/build/on_device
logs=${1:-$build/logs}
parts=${ON_DEVICE_PARTS:-build tests conformance sanitize bench expect}
bench=$build/bin/polyconv-bench
jobs=$(nproc)
mkdir -p "$logs"
[ -n "${CUDNN_ROOT:-}" ] && export LD_LIBRARY_PATH=$CUDNN_ROOT/lib:${LD_LIBRARY_PATH:-}
: >"$logs/summary.txt"
started=$(date +%s)

say() { echo "[$(($(date +%s) - started)) s] $*" | tee -a "$logs/summary.txt"; }
wants() { [[ " $parts " == *" $1 "* ]]; }
vendors() { [ -e "$build/lib/polyconv/libpolyconv_cudnn.so" ] && echo cudnn; }
plug_ins() { for file in "$build"/lib/polyconv/libpolyconv_cuda_*.so; do basename "$file" .so | sed 's/^libpolyconv_//; s/_/-/g'; done; }

{ nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader || echo "no nvidia-smi"; } 2>/dev/null | head -1 | tee -a "$logs/summary.txt"

if wants build; then
  cmake -G Ninja -S "$source_dir" -B "$build" -DCMAKE_BUILD_TYPE=Release -DPOLYCONV_CUDA=ON -DPOLYCONV_BUILD_EXAMPLES=OFF \
    -DPOLYCONV_WARNINGS_AS_ERRORS=OFF ${CUDNN_ROOT:+-DPOLYCONV_CUDNN=ON "-DCUDNN_ROOT=$CUDNN_ROOT"} >"$logs/configure.log" 2>&1 || { tail -20 "$logs/configure.log"; say "configure FAILED"; exit 1; }
  grep 'polyconv:' "$logs/configure.log"
  if timeout 270 cmake --build "$build" -j "$jobs" -- -k 0 >"$logs/build.log" 2>&1; then
    say "build good"
  else
    grep -E 'error|FAILED' "$logs/build.log" | head -20
    say "build FAILED (what was built is tested)"
  fi
fi
[ -x "$bench" ] || { say "no polyconv-bench: stop"; exit 1; }
"$bench" info >"$logs/info.txt" 2>&1
sed -n '/^Devices/,/^Kernels/p' "$logs/info.txt"

if wants tests; then
  for file in "$build"/tests/cuda_*_test "$build"/tests/cudnn_test; do
    [ -x "$file" ] || continue
    test=$(basename "$file" _test)
    timeout 120 "$file" >"$logs/$test.log" 2>&1
    result=$?
    say "$test: exit $result; $(grep 'test cases:' "$logs/$test.log")"
    [ $result = 0 ] || grep -E -A8 'ERROR|skipped' "$logs/$test.log" | head -60
  done
fi

# Every plug-in beside the others: these wait for one CPU core each, on the oracle.
if wants conformance; then
  for name in $(plug_ins) $(vendors); do
    {
      POLYCONV_CONFORMANCE=$name OMP_WAIT_POLICY=passive timeout 150 "$build/tests/conformance_test" >"$logs/conformance_$name.log" 2>&1
      echo "exit $?" >>"$logs/conformance_$name.log"
    } &
  done
  wait
  for name in $(plug_ins) $(vendors); do
    log=$logs/conformance_$name.log
    say "conformance $name: $(tail -1 "$log"), $(grep -E '^skipped' "$log" | head -1) $(grep 'assertions:' "$log" || echo 'did not finish')"
    sed -n 's/^.*MESSAGE: /    /p' "$log" | grep -E 'took|adjoint' | tee -a "$logs/summary.txt"
    grep -E -A6 'ERROR' "$log" | grep -E 'values|CHECK|ERROR|exception' | sed 's/^.*ERROR/ERROR/' | cut -c1-300 | head -24
  done
fi

if wants sanitize; then
  for tool in memcheck racecheck initcheck synccheck; do
    for name in $(plug_ins); do
      {
        timeout 90 "$source_dir/tests/cuda/sanitize.sh" $tool "$name" "$bench" >"$logs/${tool}_$name.log" 2>&1
        echo "$tool $name exit $?" >"$logs/${tool}_$name.exit"
      } &
    done
  done
  wait
  for file in "$logs"/*check_*.exit; do
    log=${file%.exit}.log
    say "$(cat "$file"): $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|skipped' "$log" | tail -1)"
    grep -E '^========= (Invalid|Error|Race|Uninit|Barrier|Program hit)' "$log" | sort | uniq -c | sort -rn | head -5
  done
fi

if wants bench; then
  timeout 60 "$bench" run --device cuda:0 --kernel "$(plug_ins | sed 's|$|/*|' | paste -sd,)" --min-time 0.02 --verify never \
    fwd:n64,c64,k64,i56x56,f3x3,p1 fwd:n10000,c1,k4,i86x86,f7x7 fwd:n1,c1,k1,i8192x8192,f3x3,p1 \
    fwd:n128,c144,k144,g144,i56x56,f3x3,p1 bwd_d:n16,c64,k64,i56x56,f3x3,p1 bwd_w:n16,c64,k64,i56x56,f3x3,p1 \
    >"$logs/bench.txt" 2>&1
  say "bench: exit $?"
  cut -c1-200 "$logs/bench.txt"
fi

if wants expect && [ -n "$(vendors)" ]; then
  timeout 90 "$bench" run --expect h200-ladder --device cuda:0 --baseline-budget 1.7 --min-time 0.02 --verify never >"$logs/expect.txt" 2>&1
  say "expect: exit $?; $(tail -1 "$logs/expect.txt")"
  cut -c1-200 "$logs/expect.txt"
fi

[ -n "${OUT:-}" ] && tar -czf "$OUT/on_device_logs.tgz" -C "$logs" . && cp "$logs/summary.txt" "$OUT/"
echo "---- summary"
cat "$logs/summary.txt"
