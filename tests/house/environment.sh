#!/usr/bin/env bash
# docs/environment.md has every environment variable that the code reads, and no other:
#   environment.sh (from the root of the source)
set -euo pipefail
page=docs/environment.md
read_by_code=$({
  grep -rhoE '\b(getenv|secure_getenv|environment|number_from|cut_from)\("[A-Z][A-Z0-9_]*"' lib backends bench examples tests \
    --include=*.cpp --include=*.hpp --include=*.c --include=*.h --include=*.cu --include=*.cuh | sed 's/.*"\(.*\)"/\1/'
  grep -rhoE 'ENV\{[A-Z][A-Z0-9_]*\}' CMakeLists.txt cmake lib backends bench examples tests --include=CMakeLists.txt \
    --include=*.cmake | sed 's/ENV{\(.*\)}/\1/'
  grep -hoE '\$\{[A-Z][A-Z0-9_]*:-' quickstart | sed 's/\${\(.*\):-/\1/'
} | sort -u)
told=$(grep -E '^\| `' "$page" | cut -d'|' -f2 | grep -oE '`[A-Z][A-Z0-9_]*`' | tr -d '`' | sort -u)
others='SOURCE_DATE_EPOCH' # read by CPack and dpkg, for us
wrong=0
for name in $read_by_code; do
  grep -qx "$name" <<<"$told" || { echo "$name is read, but $page does not tell of it"; wrong=1; }
done
for name in $told; do
  grep -qx "$name" <<<"$read_by_code"$'\n'"$others" || { echo "$page tells of $name, which nothing reads"; wrong=1; }
done
printf '%d variables\n' "$(wc -l <<<"$told")"
((wrong == 0))
