# Makes of the headers' plain comments what Doxygen reads, so that the headers themselves are written for people: a comment
# before a declaration is its text, one behind a field is the field's, a line of dashes begins a section, and a comment before
# several declarations is the text of each. Fails where a function has no comment.
#   awk -f filter.awk HEADER
function flush_block(   i, declarations, comment) {
  for (i = 1; i <= lines; ++i) {
    if (block[i] ~ /^POLYCONV_API /) ++declarations
    if (block[i] ~ /^\/\*\* /) comment = 1
  }
  if (declarations && !comment) {
    print FILENAME ": no comment before " block[1] > "/dev/stderr"
    failed = 1
  }
  if (declarations > 1) print "/** @{ */"
  for (i = 1; i <= lines; ++i) print block[i]
  if (declarations > 1) print "/** @} */"
  lines = 0
}
function add(line) { block[++lines] = line }

BEGIN { header = 1 }
# The file's own comment is the front page of its group.
header && /^\/\* [a-z_]+\.h - / {
  name = $2
  title = $0; sub(/^\/\* /, "", title)
  add("/** @file"); add(" * " title); next
}
/^ \*   [^ -]/ { sub(/^ \*   /, " *       ") } # tables and formulas stay as they are
/SPDX-License-Identifier/ { header = 0; add(" */"); next }
header { gsub(/\\0/, "\\\\0"); add($0); next }
/^\/\* -+ .* \*\/$/ {
  flush_block()
  section = $0; gsub(/^\/\* -+ | \*\/$/, "", section)
  id = name "_" section; gsub(/[^a-z]+/, "_", id)
  if (open) print "/** @} */"
  printf "/** @defgroup %s %s: %s\n * @{ */\n", id, name, section
  open = 1
  next
}
/^#endif \/\* POLYCONV_/ { flush_block(); if (open) print "/** @} */"; open = 0 }
/^enum \{ *\/\* / { # what the constants are for
  text = $0; sub(/^enum \{ */, "", text); sub(/^\/\*/, "/**", text)
  while (text !~ /\*\/$/) { add(text); if ((getline text) <= 0) break }
  add(text); add("enum {"); next
}
/^\/\* / { sub(/^\/\*/, "/**") }
/^ *[A-Za-z].*[;,{] *\/\* / || /^ +POLYCONV_[A-Z0-9_]+ = .*\/\* / || /^#define POLYCONV_.* \/\* / { sub(/\/\* /, "/**< ") }
/^$/ { flush_block(); print; next }
{ add($0) }
END { flush_block(); if (open) print "/** @} */"; exit failed }
