#!/usr/bin/env bash
# Every listing in a document that follows a line `<!-- file: PATH -->` must be that file, whole:
#   listings.sh DOCUMENT... (from the root of the source)
set -euo pipefail
checked=0 wrong=0
for document in "$@"; do
  while IFS= read -r path; do
    listing=$(awk -v mark="<!-- file: $path -->" '
      $0 == mark { found = 1; next }
      found && /^```/ { if (inside) exit; inside = 1; next }
      inside { print }' "$document")
    checked=$((checked + 1))
    if ! difference=$(diff <(printf '%s\n' "$listing") "$path"); then
      printf '%s: the listing differs from %s:\n%s\n' "$document" "$path" "$difference"
      wrong=$((wrong + 1))
    fi
  done < <(sed -n 's/^<!-- file: \(.*\) -->$/\1/p' "$document")
done
printf '%d listings, %d differ\n' "$checked" "$wrong"
((checked > 0 && wrong == 0))
