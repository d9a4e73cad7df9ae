#!/usr/bin/env bash
# Runs clang-tidy by .clang-tidy over library, backends, bench and examples of a configured build folder:
#   cmake/tidy.sh build/cpu [path regex]
# CHECKS, where set, are the checks instead of .clang-tidy's: '-*,clang-analyzer-*' is the static analyser.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?usage: cmake/tidy.sh BUILD_FOLDER [REGEX]}
only=${2:-"^$PWD/(lib|backends|bench|examples|integrations)/"}
mkdir -p "$build/tidy"
# A source that is compiled for several instruction sets is looked at once, as for the first of them.
python3 - "$build" <<'PYTHON'
import json, sys
build = sys.argv[1]
first = {}
for command in json.load(open(build + "/compile_commands.json")):
    first.setdefault(command["file"], command)
json.dump(list(first.values()), open(build + "/tidy/compile_commands.json", "w"))
PYTHON
# gcc's names of warnings are no matter here.
run-clang-tidy -quiet ${CHECKS:+-checks="$CHECKS"} -j "$(nproc)" -p "$build/tidy" -extra-arg=-Wno-unknown-warning-option -header-filter="^$PWD/(lib|include|backends|bench|examples|integrations)/" \
  "$only" >"$build/tidy/log" 2>"$build/tidy/errors" && exit 0
sed 's/\x1b\[[0-9;]*m//g' "$build/tidy/log" | grep -E 'warning:|error:' | sort -u >&2 || cat "$build/tidy/errors" >&2
exit 1
