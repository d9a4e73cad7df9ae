#!/usr/bin/env bash
# bench stays readable from the top: bench.sh (from the root of the source). Every folder of code stands in the table of
# README.md, includes only those above it there and itself, and has no more than 25 files; no code lies outside a folder.
set -euo pipefail
root=bench most=25 wrong=0
say() { printf '%s\n' "$1"; wrong=$((wrong + 1)); }

mapfile -t order < <(sed -n 's/^| `\([a-z_]*\)\/` |.*/\1/p' "$root/README.md")
declare -A place=()
for i in "${!order[@]}"; do place[${order[i]}]=$i; done

while IFS= read -r folder; do
  name=${folder#"$root"/}
  [[ $folder == "$root" || -n ${place[$name]:-} ]] || say "$folder: the table of $root/README.md does not name it"
done < <(find "$root" -name '*.[ch]pp' -printf '%h\n' | sort -u)
while IFS= read -r folder; do
  count=$(find "$folder" -maxdepth 1 -type f | wc -l)
  ((count <= most)) || say "$folder has $count files, more than $most: divide it"
done < <(find "$root" -type d)
while IFS= read -r file; do say "$file lies in no folder"; done < <(find "$root" -maxdepth 1 -name '*.[ch]pp')

for name in "${order[@]}"; do
  [[ -d $root/$name ]] || { say "$root/$name: README.md names it, and there is none"; continue; }
  while IFS=: read -r file line text; do
    other=$(sed 's/.*"\(.*\)\/[^/]*".*/\1/' <<<"$text")
    [[ $other == ../* ]] && continue # of another part of the project
    if [[ -z ${place[$other]:-} ]]; then
      say "$file:$line: write the folder: \"FOLDER/FILE\""
    elif ((place[$other] > place[$name])); then
      say "$file:$line: $name stands above $other in $root/README.md, and must not include it"
    fi
  done < <(grep -rnE '^#include "' "$root/$name" || true)
done

printf '%d folders, %d wrong\n' "${#order[@]}" "$wrong"
((${#order[@]} > 0 && wrong == 0))
