#!/usr/bin/env bash
# Runs the tests of a configured and built folder once for each instruction set named, as if the processor had no more:
#   tests/each_isa.sh BUILD_FOLDER ISA...          for instance build/cpu baseline avx512
# An instruction set that the processor lacks is left out in words, and so is the one that it takes by itself, for that is
# how the tests have run before. What no instruction set changes is not run again: the
# tests of packaging, of consumers, of the tree itself and of what was compiled; nor conformance, which forces every config by its name, those of
# lesser processors too. What is chosen differs, and that is tested. The build folder is left as it was.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?usage: tests/each_isa.sh BUILD_FOLDER ISA...}
shift

# Whether the processor, by /proc/cpuinfo, has what an instruction set stands for; backends/cpu/isa.cpp has the whole list.
has() {
  local flag
  case $1 in
    baseline) return 0 ;;
    neon) [[ $(uname -m) == aarch64 ]]; return ;; # every 64-bit Arm
    avx2) flag=avx2 ;;
    avx512) flag=avx512vl ;;
    avx512_bf16) flag=avx512_bf16 ;;
    amx) flag=amx_int8 ;;
    sve256 | sve512) flag=sve ;; # of registers of another length the tests then see NEON
    neon_dot) flag=asimddp ;;
    neon_bf16) flag=bf16 ;;
    *) printf 'each_isa: "%s" is no instruction set; expected baseline, avx2, avx512, avx512_bf16, amx, neon, sve256, sve512, neon_dot or neon_bf16\n' "$1" >&2; exit 2 ;;
  esac
  grep -qw "$flag" /proc/cpuinfo
}

# What the CPU backends take where nothing is said: the note of the first of them that loads.
own=$("$build/bin/polyconv-bench" info | awk '$1 ~ /^(threads|openmp|tbb)$/ && $2 == "available" && NF == 7 { print $6; exit }' || true)

set_isa() { cmake -S . -B "$build" -DPOLYCONV_TEST_MAX_ISA="$1" >/dev/null; }
trap 'set_isa ""' EXIT

for isa in "$@"; do
  if ! has "$isa"; then
    printf '== %s: left out, this processor has none\n' "$isa"
    continue
  fi
  if [[ $isa == "$own" ]]; then
    printf '== %s: left out, it is what this processor takes by itself\n' "$isa"
    continue
  fi
  printf '== tests at POLYCONV_MAX_ISA=%s\n' "$isa"
  set_isa "$isa"
  ctest --test-dir "$build" --output-on-failure -LE '^(house|consumer|examples|conformance)$' \
    -E '^(abi_diff|isa_objects)$' --no-tests=error --parallel "$(nproc)"
done
