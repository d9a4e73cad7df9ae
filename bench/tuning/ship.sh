#!/usr/bin/env bash
# ship.sh name|rest FILE... - tuning databases of one machine as lines for all machines of its kind, on stdout: those of the
# same name whatever their driver (name: GPUs), or with the same instruction sets whatever their name (rest: processors).
# Of each kernel the fastest config is kept: that suffices for choosing, and most lines are others.
set -euo pipefail
(($# >= 2)) && [[ $1 == name || $1 == rest ]] || {
  echo "usage: ship.sh name|rest FILE..." >&2
  exit 2
}
part=$1
shift
echo '# polyconv tuning 1'
awk -F '\t' -v OFS='\t' -v part="$part" '
  NF == 9 {
    at = match($3, /; [^;]*$/)
    if (!at) next
    $3 = part == "name" ? substr($3, 1, at + 1) "*" : "*" substr($3, at)
    kernel = $4
    gsub(/@[^ ]*/, "", kernel)
    key = $1 FS $2 FS $3 FS kernel
    if (!(key in us) || $6 + 0 < us[key]) { us[key] = $6 + 0; line[key] = $0 }
  }
  END { for (key in line) print line[key] }' "$@" | LC_ALL=C sort
