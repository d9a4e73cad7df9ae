#!/usr/bin/env bash
# What the public header declares today holds all that it declared in the first release, in its place: functions, their
# parameters, and every field of every struct. Structs that begin with struct_size may have grown at the end, and
# functions may have come. Told by libabigail's abidiff, from the types of a library that has nothing but the header's
# functions (what the real one exports is held to the header by abi_symbols):
#   abidiff.sh COMPILER HEADER FIRST.abi FOLDER          77 where abidiff is missing
#   abidiff.sh --write COMPILER HEADER FIRST.abi FOLDER  writes FIRST.abi, which is done once for a soname
set -euo pipefail
write=
if [[ $1 == --write ]]; then write=1; shift; fi
compiler=$1 header=$2 first=$3 folder=$4
command -v abidiff >/dev/null || { echo "skipped: abidiff is missing (Debian: abigail-tools)"; exit 77; }
mkdir -p "$folder"

# library HEADER NAME: compiles a library of the functions that the header declares, each empty; prints its path
library() {
  mkdir -p "$folder/$2/include/polyconv"
  cp "$1" "$folder/$2/include/polyconv/polyconv.h"
  awk 'BEGIN { RS = ";"; print "#include <polyconv/polyconv.h>" }
    match($0, /POLYCONV_API [^(#]*\(/) && !/#define POLYCONV_API[^;]*$/ {
      text = substr($0, RSTART + 13); gsub(/\n */, " ", text)
      name = text; sub(/\(.*/, "", name); type = name; sub(/[a-z0-9_]+$/, "", type); sub(/.*[ *]/, "", name)
      printf "#undef %s\n%s { %s }\n", name, text, type ~ /^void *$/ ? "" : "return 0;"
    }' "$1" >"$folder/$2/every_function.c"
  "$compiler" -std=c99 -w -g -O0 -shared -fPIC -Wl,-soname,libpolyconv.so.0 -I "$folder/$2/include" \
    "$folder/$2/every_function.c" -o "$folder/$2/libpolyconv.so"
  printf '%s' "$folder/$2/libpolyconv.so"
}

# compare LIBRARY: prints what broke, and fails if anything did. Of what abidiff tells, one thing is allowed: that a struct
# which begins with struct_size has become larger, with its new fields behind its old end. (A suppression file cannot say
# this: libabigail 2.2 then also passes over fields that moved.) polyconv_pool, polyconv_epilogue, polyconv_tensor and
# polyconv_allocator lie in other structs or have no size: they are frozen.
compare() {
  local told status=0
  told=$(abidiff --no-added-syms --leaf-changes-only "$first" "$1") || status=$?
  ((status & 3)) && { printf 'abidiff failed: %s\n' "$told"; return 1; }
  awk '
    /^$/ || / summary: / { next } # what is counted there is told below it
    /^.struct polyconv_(problem|options|buffers|plan_info|backend_info|device_properties|candidate) at .* changed:$/ { end = 0; next }
    /^  type size changed from [0-9]+ to [0-9]+ \(in bits\)$/ && $7 > $5 { end = $5; next }
    /^  [0-9]+ data member insertions?:$/ { next }
    end && /^    .*, at offset [0-9]+ \(in bits\)/ { at = $0; sub(/.*, at offset /, "", at); if (at + 0 >= end) next }
    { print; broken = 1 }
    END { exit broken }' <<<"$told"
}

if [[ -n $write ]]; then
  abidw --no-corpus-path --no-comp-dir-path --out-file "$first" "$(library "$header" first)"
  exit
fi

compare "$(library "$header" today)" || { echo "the ABI of the first release is broken; docs/abi.md says what may change"; exit 1; }

# And it would be noticed. Each row: what is done to the header, whether it may be, and the sed that does it.
failed=0
while IFS='|' read -r what allowed edit; do
  sed -E "$edit" "$header" >"$folder/edited.h"
  cmp -s "$header" "$folder/edited.h" && { echo "nothing was edited: $what"; failed=1; continue; }
  if compare "$(library "$folder/edited.h" edited)" >"$folder/edited.log"; then verdict=yes; else verdict=no; fi
  [[ $verdict == "$allowed" ]] || { echo "$what: allowed is $verdict, expected $allowed"; cat "$folder/edited.log"; failed=1; }
done <<'ROWS'
a function comes|yes|s/^POLYCONV_API const char \*polyconv_version\(void\);/&\nPOLYCONV_API int32_t polyconv_new(void);/
a struct grows at its end|yes|s/^} polyconv_problem;/  int64_t new_field[7];\n&/
a function goes|no|/^POLYCONV_API const char \*polyconv_version\(void\);/d
a function takes more|no|s/^(POLYCONV_API void polyconv_plan_destroy\(polyconv_plan \*plan)/\1, int32_t how/
a field comes in the middle|no|s/^  int32_t transposed; /  int64_t new_field;\n&/
a field goes|no|/^  int32_t checked; /d
a field gets wider|no|s/^  int32_t pad_mode; /  int64_t pad_mode;/
two fields change places|no|s/^  void \*input; /  void *swapped;/; s/^  void \*output; /  void *input;/; s/^  void \*swapped;/  void *output;/
a struct that lies in another grows|no|s/^} polyconv_epilogue;/  int64_t new_field;\n&/
ROWS
exit $failed
