#!/usr/bin/env bash
# Runs the fuzz targets of a build folder, each for a while, as many at once as there are processors:
#   tests/fuzz/run.sh SECONDS [TARGET...]          for instance 60, or 600 problem token
# BUILD (build/fuzz) is where the preset `fuzz` built them; backends other than the reference come from PLUGINS
# (build/cpu/lib/polyconv), where that is there. Exits 1 where a target found something: the input lies in
# BUILD/findings and repeats with BUILD/targets/TARGET_fuzz FILE. Each target starts from tests/fuzz/corpus/TARGET.
# RUNS=10000 ends a target after so many inputs, too, and makes two runs alike, as CI wants it: the same seed, addresses and
# paths, and nothing learnt from the values that are compared, which are addresses now and then. (Of the fourteen, problem
# and plugin still differ a little from run to run, for they load plug-ins.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
build=${BUILD:-build/fuzz} plugins=${PLUGINS:-build/cpu/lib/polyconv}
targets=("$@")
if ((${#targets[@]} == 0)); then
  for binary in "$build"/targets/*_fuzz; do
    [[ -x $binary ]] && binary=${binary##*/} && targets+=("${binary%_fuzz}")
  done
fi
((${#targets[@]} > 0)) || { echo "fuzz: no targets in $build; build them: cmake --preset fuzz && cmake --build --preset fuzz" >&2; exit 2; }
for target in "${targets[@]}"; do
  [[ -x $build/targets/${target}_fuzz ]] || { echo "fuzz: no target '$target' in $build" >&2; exit 2; }
done
if [[ -d $plugins ]]; then
  POLYCONV_BACKEND_PATH=$(cd "$plugins" && pwd)
  export POLYCONV_BACKEND_PATH
fi
# The plug-ins are not instrumented: what they leave at the end is not the targets' leak. A size that no machine has is
# refused by the allocator, as on any machine, instead of ending the process.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
[[ -z ${TMPDIR:-} && -w /dev/shm ]] && export TMPDIR=/dev/shm # targets that read files write one for each input
mkdir -p "$build/findings" "$build/logs"

fuzz() {
  local target=$1 found=$build/findings/$1- log=$build/logs/$1 grown=$build/corpus/$1
  local launcher=() options=(-seed="${SEED:-0}") # 0: another one each time
  if [[ -n ${RUNS:-} ]]; then
    rm -rf "$grown" # what is to be repeated begins anew
    setarch -R true 2>/dev/null && launcher=(setarch -R)
    options=(-seed="${SEED:-1}" -runs="$RUNS" -use_cmp=0)
  fi
  [[ $target != plugin ]] || ASAN_OPTIONS+=:detect_leaks=1 # it loads no file: whatever leaks is the library's
  mkdir -p "$grown"
  "${launcher[@]}" "$build/targets/${target}_fuzz" "${options[@]}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 -malloc_limit_mb=2500 \
    -artifact_prefix="$found" -print_final_stats=1 -verbosity=1 "$grown" "tests/fuzz/corpus/$target" >"$log" 2>&1 &&
    local verdict=good || local verdict=FOUND
  printf '%-10s %-6s %12s runs   coverage %s\n' "$target" "$verdict" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
  [[ $verdict == good ]] || { grep -E -A 12 'ERROR|does not hold|runtime error|SUMMARY' "$log" | head -n 40; return 1; }
}
export -f fuzz
export build seconds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -c 'fuzz {}'
