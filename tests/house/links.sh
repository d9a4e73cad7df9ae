#!/usr/bin/env bash
# Every relative link and picture of a document leads to a file or folder that is there:
#   links.sh DOCUMENT... (from the root of the source)
set -euo pipefail
checked=0 wrong=0
for document in "$@"; do
  while IFS= read -r link; do
    [[ $link =~ ^[a-z]+: || $link == \#* ]] && continue # another place, or this page
    checked=$((checked + 1))
    if [[ $link == /* || ! -e $(dirname "$document")/${link%%#*} ]]; then
      printf '%s: (%s) leads nowhere\n' "$document" "$link"
      wrong=$((wrong + 1))
    fi
  done < <(awk '/^ *```/ { code = !code } !code' "$document" | sed 's/`[^`]*`//g' | grep -oE '\]\([^() ]+\)' | sed 's/^](//; s/)$//')
done
printf '%d links, %d broken\n' "$checked" "$wrong"
((checked > 0 && wrong == 0))
