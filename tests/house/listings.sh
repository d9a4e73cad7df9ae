#!/usr/bin/env bash
# Every example that a person may copy is code that the tests compile and run:
#   listings.sh FILE... (documents and headers, from the root of the source)
# In a document a block of c or cpp follows one of these lines, and cmake may:
#   <!-- file: PATH -->            it is that file, whole
#   <!-- part: PATH NAME -->       it is what lies between the lines `// part NAME` and `// end NAME` of that file
# In a header, lines of comment that are indented further follow a line which ends in `(PATH, part NAME):`.
set -euo pipefail
checked=0 wrong=0

# part PATH NAME: the lines of a part, moved left by the indentation of its mark
part() {
  awk -v name="$2" '
    $0 ~ "^ *// end " name "$" { exit }
    inside { print substr($0, 1, indent) ~ /^ *$/ ? substr($0, indent + 1) : $0 }
    $0 ~ "^ *// part " name "$" { inside = 1; indent = index($0, "/") - 1 }' "$1"
}

# holds WHERE SOURCE LISTING EXPECTED: counts, and prints the difference
holds() {
  local difference
  checked=$((checked + 1))
  if [[ -z $4 ]] || ! difference=$(diff <(printf '%s\n' "$3") <(printf '%s\n' "$4")); then
    printf '%s: the listing differs from %s:\n%s\n' "$1" "$2" "${difference:-which is empty}"
    wrong=$((wrong + 1))
  fi
}

for document in "$@"; do
  if [[ $document == *.md ]]; then
    while IFS= read -r mark; do
      listing=$(awk -v mark="$mark" '
        $0 == mark { found = 1; next }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' "$document")
      if [[ $mark =~ ^"<!-- file: "(.*)" -->"$ ]]; then
        holds "$document" "${BASH_REMATCH[1]}" "$listing" "$(cat "${BASH_REMATCH[1]}")"
      elif [[ $mark =~ ^"<!-- part: "([^ ]+)" "([a-z_]+)" -->"$ ]]; then
        holds "$document" "part ${BASH_REMATCH[2]} of ${BASH_REMATCH[1]}" "$listing" "$(part "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")"
      fi
    done < <(grep -E '^<!-- (file|part): ' "$document" || true)
    unmarked=$(awk '/^ *```(c|cpp|c\+\+|C)$/ && last !~ /^<!-- (file|part): / { printf "%d ", NR } { last = $0 }' "$document")
    if [[ -n $unmarked ]]; then
      printf '%s: what no test compiles is no example: lines %s\n' "$document" "$unmarked"
      wrong=$((wrong + 1))
    fi
  else
    while read -r path name; do
      listing=$(awk -v mark="($path, part $name):" '
        index($0, mark) { found = 1; next }
        found && !inside && /^( \*|\/\/)$/ { next }
        found && /^( \*|\/\/)   / { inside = 1; print substr($0, 6); next }
        inside { exit }' "$document")
      holds "$document" "part $name of $path" "$listing" "$(part "$path" "$name")"
    done < <(sed -nE 's/^.*\(([^ ,]+), part ([a-z_]+)\):$/\1 \2/p' "$document")
  fi
done
printf '%d listings, %d wrong\n' "$checked" "$wrong"
((checked > 0 && wrong == 0))
