#!/usr/bin/env bash
# A backend exports its entry symbol alone: exports.sh NM LIBRARY...
set -euo pipefail
nm=$1
shift
wrong=0
for library in "$@"; do
  exported=$("$nm" -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); if ($2 != "A") print $3 }')
  if [[ $exported != polyconv_backend_query_v1 ]]; then
    printf '%s exports\n%s\ninstead of polyconv_backend_query_v1 alone\n' "$library" "$exported"
    wrong=1
  fi
done
exit $wrong
