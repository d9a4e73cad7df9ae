#!/usr/bin/env bash
# Whether a kernel's version covers the code that it links: linked.sh NM FILES FOLDER... FILES is what
# cmake/kernel_versions.cmake wrote, a line a kernel; below the folders lie the objects of its sources, each pass its own.
# An object needs another where that alone defines a strong symbol that this one lacks; weak ones, inline functions and
# templates, every object has itself, from headers.
set -euo pipefail
nm=$1 files=$2
shift 2
[[ -s $files ]] || { echo "$files is empty"; exit 1; }
find "$@" -name '*.o' | sort | xargs "$nm" -A -P -g | awk -v files="$files" '
  # The source of an object, as the CMakeLists.txt of its folder calls it: .../CMakeFiles/TARGET.dir/SOURCE.o
  function source_of(object,   s) {
    s = object
    sub(/.*\/CMakeFiles\/[^\/]*\.dir\//, "", s)
    sub(/\.o$/, "", s)
    return s
  }
  {
    at = index($0, ".o: ") + 1
    object = substr($0, 1, at)
    split(substr($0, at + 3), field, " ")
    if (field[2] ~ /^[TDBRSG]$/) home[field[1]] = object
    if (field[2] == "U") needs[object] = needs[object] " " field[1]
    all[object] = 1
  }
  END {
    while ((getline line <files) > 0) {
      name = line
      sub(/:.*/, "", name)
      delete covered
      count = split(substr(line, length(name) + 3), file, " ")
      for (i = 1; i <= count; ++i) covered[file[i]] = 1
      delete seen
      top = 0
      for (stem = name; top == 0; sub(/_data$/, "", stem)) { # an adjoint may have none of its own
        for (object in all)
          if (source_of(object) ~ "(^|/)" stem "[.](cpp|cu)$" && is_covered(object)) { stack[++top] = object; seen[object] = 1 }
        for (symbol_name in home) # and where the kernel itself is defined, if that is another file
          if (symbol_name ~ "[0-9]kernel_" stem "E$" && !(home[symbol_name] in seen)) {
            stack[++top] = home[symbol_name]
            seen[home[symbol_name]] = 1
          }
        if (stem !~ /_data$/) break
      }
      if (top == 0) { print name ": no object of it was found"; wrong++ }
      while (top > 0) {
        object = stack[top--]
        linked++
        if (!is_covered(object)) { print name " links " source_of(object) ", which its version does not know"; wrong++; continue }
        n = split(needs[object], symbol, " ")
        for (i = 1; i <= n; ++i)
          if (symbol[i] in home && !(home[symbol[i]] in seen)) { seen[home[symbol[i]]] = 1; stack[++top] = home[symbol[i]] }
      }
      kernels++
    }
    printf "%d kernels, %d objects linked, %d wrong\n", kernels, linked, wrong
    exit !(kernels > 0 && wrong == 0)
  }
  function is_covered(object,   one, s) {
    s = "/" source_of(object)
    for (one in covered) if (substr(one, length(one) - length(s) + 1) == s) return 1
    return 0
  }'
