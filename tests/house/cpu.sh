#!/usr/bin/env bash
# backends/cpu stays findable: cpu.sh (from the root of the source). No folder has more than 25 files of its own, or no
# README.md; every folder stands in the map of README.md, and every kernel in it or in its folder's; common includes nothing
# of a kernel.
set -euo pipefail
root=backends/cpu most=25 wrong=0 folders=0 kernels=0
say() { printf '%s\n' "$1"; wrong=$((wrong + 1)); }

while IFS= read -r folder; do
  folders=$((folders + 1))
  count=$(find "$folder" -maxdepth 1 -type f | wc -l)
  ((count <= most)) || say "$folder has $count files, more than $most: divide it"
  [[ -f $folder/README.md ]] || say "$folder has no README.md"
  name=${folder#"$root"} name=${name#/}
  [[ -z $name ]] || grep -qF "$name/" "$root/README.md" || say "$folder: $root/README.md does not name it"
done < <(find "$root" -type d)

while IFS= read -r name; do
  kernels=$((kernels + 1))
  (($(find "$root" -mindepth 2 -maxdepth 2 -name "$name.cpp" | wc -l) == 1)) || say "$name has no file of its own"
  grep -qF "\`$name\`" "$root/README.md" || say "$name: $root/README.md does not name it"
done < <(sed -En 's/^POLYCONV_(KERNEL|ADJOINT)\((.*)\)$/\2/p' "$root/kernels.inc")

outside=$(grep -rnE '#include "cpu/' "$root/common" | grep -vE '"cpu/(common/|pass\.hpp|isa\.hpp)') || true
[[ -z $outside ]] || say "$outside
common includes of a kernel: move what both need there"

printf '%d folders, %d kernels, %d wrong\n' "$folders" "$kernels" "$wrong"
((kernels > 0 && wrong == 0))
