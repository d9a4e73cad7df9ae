#!/usr/bin/env bash
# The API reference from the headers; every warning of Doxygen's is an error, and so is a function without a comment:
#   build.sh DOXYGEN DOXYFILE SOURCE
set -euo pipefail
for header in "$3"/include/polyconv/*.h; do awk -f "$3/docs/api/filter.awk" "$header" >/dev/null; done
output=$(sed -n 's/^OUTPUT_DIRECTORY *= "\(.*\)"$/\1/p' "$2")
mkdir -p "$output"
if ! said=$("$1" "$2" 2>&1) || [[ $said == *warning:* ]]; then
  printf '%s\n' "$said"
  exit 1
fi
[[ -s $output/html/structpolyconv__problem.html && -s $output/html/group__polyconv__h__run.html ]] ||
  { echo "the reference lacks polyconv_problem or the section run"; exit 1; }
echo "$output/html/index.html"
