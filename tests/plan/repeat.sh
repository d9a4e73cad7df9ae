#!/usr/bin/env bash
# The command at the end of a plan's line of log makes the same plan again: repeat.sh POLYCONV_BENCH
set -euo pipefail
bench=$1 wrong=0 checked=0
PATH=$(dirname "$bench"):$PATH
export POLYCONV_LOG=info

# The command in the last line that tells of a plan of these words; the bench's own checks make plans of others.
command_in() { sed -n 's/^polyconv: info: plan .*; run: //p' "$1" | grep -F -- "$2" | tail -n 1; }

repeats() { # WORD OPTION...: a plan with these options, which has the word in its command, and its repetition
  local word=$1 first second
  shift
  polyconv-bench run "$@" --verify never --min-time 0.001 >/dev/null 2>log.txt || { cat log.txt; exit 1; }
  first=$(command_in log.txt "$word")
  [[ -n $first ]] || { echo "no command with '$word' in:"; cat log.txt; exit 1; }
  bash -c "${first%% # *} --verify never --min-time 0.001" >/dev/null 2>again.txt || { cat again.txt; exit 1; }
  second=$(command_in again.txt "$word")
  checked=$((checked + 1))
  [[ $first == "$second" ]] || { printf '%s\nbecame\n%s\n' "$first" "$second"; wrong=$((wrong + 1)); }
}

layer=fwd:n1,c8,k8,i9x9,f3x3,p1
repeats "$layer " "$layer"
repeats "$layer " "$layer" --kernel 'reference/*'
repeats fast "$layer" --math fast --determinism none --threads 1
repeats '!reference/*' "$layer:maxpool2" --kernel 'threads/*,!reference/*' --workspace-limit 1M
repeats "--grouping none" "$layer:relu > $layer"
printf '%d commands, %d wrong\n' "$checked" "$wrong"
((wrong == 0))
