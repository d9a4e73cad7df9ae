#!/usr/bin/env bash
# lib stays findable: lib.sh (from the root of the source). No folder has more than 25 files of its own; each stands in
# the table of README.md; a file includes files of its own folder and of those above it there; headers make no ring.
set -euo pipefail
root=lib most=25 wrong=0 folders=0 includes=0
say() { printf '%s\n' "$1"; wrong=$((wrong + 1)); }

declare -A place=() # of a folder in the table, from the top
while IFS= read -r name; do place[$name]=${#place[@]}; done < <(sed -nE 's/^\| `([a-z]+)\/` \|.*/\1/p' "$root/README.md")

while IFS= read -r folder; do
  folders=$((folders + 1))
  count=$(find "$folder" -maxdepth 1 -type f | wc -l)
  ((count <= most)) || say "$folder has $count files, more than $most: divide it"
  [[ -n ${place[${folder#"$root"/}]:-} ]] || say "$folder: the table of $root/README.md does not name it"
done < <(find "$root" -mindepth 1 -type d)
((folders == ${#place[@]})) || say "$root/README.md names ${#place[@]} folders, there are $folders"

while IFS=: read -r file include; do
  includes=$((includes + 1))
  include=${include#\#include \"} include=${include%\"*}
  own=${file#"$root"/} own=${own%%/*} other=${include%%/*}
  [[ -f $root/$include ]] || { say "$file includes \"$include\": expected a path from $root on"; continue; }
  ((${place[$other]:-99} <= ${place[$own]:--1})) || say "$file includes \"$include\": $other/ lies below $own/ in $root/README.md"
done < <(grep -rHoE '^#include "[^"]+"' "$root" --include='*.cpp' --include='*.hpp' --include='*.in')

rings=$(grep -rHoE '^#include "[^"]+"' "$root" --include='*.hpp' | sed -E 's/^lib\/([^:]*):#include "([^"]*)"/\1 \2/' | tsort 2>&1 >/dev/null) || true
[[ -z $rings ]] || say "headers include each other in a ring: $rings"

printf '%d folders, %d includes, %d wrong\n' "$folders" "$includes" "$wrong"
((folders > 0 && includes > 0 && wrong == 0))
