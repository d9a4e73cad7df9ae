#!/bin/sh
# sanitize.sh TOOL BACKEND POLYCONV-BENCH [SUITE] - checks a suite (tiny; of cuda-chain chains_tiny) on one CUDA plug-in's
# kernels, each in the config that it chooses, and then its steps (pooling, conversions, the way back through activation
# and pooling), which no suite can name, under one of compute-sanitizer's tools. Exit 77: no GPU, or no compute-sanitizer
# that can look at it.
suite=tiny
[ "$2" = cuda-chain ] && suite=chains_tiny
tool=$1 backend=$2 bench=$3 suite=${4:-$suite}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$sanitizer" ]; then
  echo "skipped: no compute-sanitizer"
  exit 77
fi
info=$("$bench" info 2>/dev/null)
if ! echo "$info" | grep -q "cuda:0"; then
  echo "skipped: no CUDA device"
  exit 77
fi
# Named without config and wildcard: each kernel in the config that it chooses.
kernels=$(echo "$info" | grep -o "^  $backend/[a-z0-9_]*" | tr -d ' ' | paste -sd, -)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sanitize() {
  "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 20 "$@" 2>&1
}
{
  sanitize "$bench" check --suite "$suite" --device cuda:0 --kernel "$kernels"
  echo $? >"$folder/result"
  # Not every plug-in has steps, and the sanitizer calls a program that never uses the GPU an error.
  steps="$(dirname "$bench")/../tests/conformance_test"
  export POLYCONV_CONFORMANCE="$backend"
  echo 0 >"$folder/steps"
  if "$steps" -tc='every step is right' 2>&1 | grep -q " took "; then
    sanitize "$steps" -tc='every step is right'
    echo $? >"$folder/steps"
  fi
} | tee "$folder/log"
result=$(cat "$folder/result") steps=$(cat "$folder/steps")
if grep -q "Device not supported" "$folder/log"; then
  echo "skipped: compute-sanitizer does not support this machine's way to the GPU"
  exit 77
fi
# 4: the plug-in takes only some of the suite.
case $result in 0 | 4) result=$steps ;; esac
exit $result
