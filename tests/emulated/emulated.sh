#!/usr/bin/env bash
# Every CPU kernel is right on an x86-64 of 2003 and on one of 2013, as far as qemu's user mode knows them:
#   emulated.sh POLYCONV_BENCH
# Exit code 77, with the reason, where there is no qemu.
set -euo pipefail
bench=$1
qemu=$(command -v qemu-x86_64 || command -v qemu-x86_64-static) ||
  { echo "skipped: no qemu-x86_64 here (Debian: qemu-user)"; exit 77; }
problems=(fwd:c19,k21,i13x9,f3x3,p1:bias+relu fwd:c40,k24,i9x9,f1x1 fwd:c19,k21,i9x9,f3x3,s2,p1:nhwc:bf16
  fwd:c20,k20,g20,i9x11,f3x3,p1:nhwc fwd:i17x21,f5x5,p2:pad=reflect fwd:c6,k5,i7x7,f3x3,p1:f16
  fwd:c9,k21,i7x7,f3x3,p1:nhwc:s8 bwd_d:c5,k7,i9x9,f3x3,p1 bwd_w:c5,k7,i9x9,f3x3,p1)

# expects CPU ISA: every kernel takes that instruction set there, and is right
expects() {
  local taken
  taken=$("$qemu" -cpu "$1" "$bench" explain "${problems[0]}" 2>/dev/null | grep -oE -m 1 '@[a-z0-9]+' || true)
  if [[ $taken != "@$2" && $2 != baseline ]]; then
    echo "skipped $1: $("$qemu" --version | head -1) has no $2"
    return 0
  fi
  [[ $taken == "@$2" ]] || { echo "$1: took ${taken:-nothing} where @$2 is what it has"; return 1; }
  echo "$1: $2"
  "$qemu" -cpu "$1" "$bench" check --kernel "openmp/*@$2" "${problems[@]}" 2>/dev/null | tail -n +3
}
expects qemu64 baseline
expects Haswell avx2
