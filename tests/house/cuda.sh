#!/usr/bin/env bash
# backends/cuda stays findable: cuda.sh (from the root of the source). No folder has more than 25 files of its own; each
# kernel is named by a README.md of its folder or one above; instructions are in common/ptx alone; a plug-in
# includes its own files, from its own folder on, and those of common.
set -euo pipefail
root=backends/cuda most=25 wrong=0 folders=0 kernels=0 instructions=0
say() { printf '%s\n' "$1"; wrong=$((wrong + 1)); }

while IFS= read -r folder; do
  folders=$((folders + 1))
  count=$(find "$folder" -maxdepth 1 -type f | wc -l)
  ((count <= most)) || say "$folder has $count files, more than $most: divide it by family"
done < <(find "$root" -type d)

# Every kernel is named by a page on the way from its file up to backends/cuda; an adjoint where its forward kernel is.
while IFS=: read -r list name; do
  kernels=$((kernels + 1))
  [[ $name == POLYCONV_ADJOINT* ]] && adjoint=_data || adjoint=
  name=${name#*(} name=${name%)}
  file=$(find "$(dirname "$list")" -name "$name.cu" -o -name "$name.cpp")
  named=0
  for ((folder = 1; folder; )); do
    page=$(dirname "${page:-$file}")
    [[ -f $page/README.md ]] && grep -qwF -e "$name$adjoint" -e "$name" "$page/README.md" && named=1
    [[ $page == "$root" ]] && folder=0
  done
  unset page
  ((named)) || say "$name$adjoint: no README.md from $file on upwards names it"
done < <(grep -rhoHE '^POLYCONV_(KERNEL|ADJOINT)\([a-z0-9_]+\)' "$root" --include=kernels.inc)

# asm of nothing, which keeps a value in a register, may stand anywhere.
outside=$(grep -rnE '\basm( volatile)?\(' "$root" --include='*.cu*' --include='*.hpp' | grep -vE "^$root/common/ptx/|asm volatile\(\"\" :") || true
[[ -z $outside ]] || say "$outside
an instruction outside $root/common/ptx: make it a function there"
instructions=$(grep -rhoE '\basm( volatile)?\(' "$root/common/ptx" | wc -l)

while IFS=: read -r file include; do
  include=${include#\#include \"} include=${include%\"}
  own=${file#"$root"/} own=${own%%/*}
  [[ -f $root/$own/$include && $own != common ]] && continue
  [[ $include == common/* && -f $root/$include ]] && continue
  [[ $include == kernels.inc && $own == common ]] && continue # backend.hpp: the plug-in's
  say "$file includes \"$include\": expected a path from $root/$own, or common/... from $root"
done < <(grep -rHoE '^#include "[^"]+"' "$root" --include='*.cu*' --include='*.hpp' --include='*.cpp')

printf '%d folders, %d kernels, %d instructions, %d wrong\n' "$folders" "$kernels" "$instructions" "$wrong"
((kernels > 0 && instructions > 0 && wrong == 0))
