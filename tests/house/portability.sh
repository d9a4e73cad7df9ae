#!/usr/bin/env bash
# No operating-system call outside lib/os/posix*.cpp and lib/os/windows.cpp, but for the question what an Arm processor has,
# and no intrinsic outside backends/cpu, where tests/isa looks at the objects themselves: portability.sh (from the root of
# the source)
set -euo pipefail
wrong=0

# forbid SENTENCE PATTERN PATH...: prints the lines of files below the paths that match. A path that begins with ! is left
# out. An unpacked archive is looked at as a clone is: git is not asked.
forbid() {
  local sentence=$1 pattern=$2 path paths=() left_out=()
  shift 2
  for path in "$@"; do
    [[ -e ${path#!} ]] || { echo "$path is missing: run me from the root of the source"; exit 1; }
    if [[ $path == !* ]]; then left_out+=(! -path "${path#!}" ! -path "${path#!}/*"); else paths+=("$path"); fi
  done
  local found
  found=$(find "${paths[@]}" -type f "${left_out[@]}" -exec grep -nHE "$pattern" {} +) || true
  if [[ -n $found ]]; then
    printf '%s\n%s\n\n' "$found" "$sentence"
    wrong=1
  fi
}

# The search must find what is there.
[[ $(forbid found '\bdlsym\s*\(' lib) == *found ]] || { echo "the search finds no dlsym in lib"; exit 1; }

headers='#\s*include\s*<(dlfcn|unistd|windows|fcntl|pthread|sched|dirent|link|poll|signal|pwd|libgen|spawn|direct|io)\.h>'
headers+='|#\s*include\s*<(sys|arpa|netinet|linux|mach|mach-o)/'
forbid 'An operating-system header: only lib/os/posix*.cpp, lib/os/windows.cpp, sdk/system_threads.hpp and detect_arm.cpp may.' "$headers" \
  lib include backends/sdk/include backends/reference backends/cpu backends/threads backends/openmp backends/tbb \
  '!lib/os/posix.cpp' '!lib/os/posix_library.cpp' '!lib/os/windows.cpp' \
  '!backends/sdk/include/polyconv/sdk/system_threads.hpp' '!backends/cpu/detect_arm.cpp'
forbid 'A call of the operating system: it belongs into lib/os/posix*.cpp and lib/os/windows.cpp.' \
  '\b(dlopen|dlsym|dladdr|LoadLibrary[AW]?|GetProcAddress|opendir|readdir|mmap|secure_getenv)\s*\(' \
  lib backends/sdk/include backends/reference backends/cpu backends/threads backends/openmp backends/tbb \
  '!lib/os/posix.cpp' '!lib/os/posix_library.cpp' '!lib/os/windows.cpp'
forbid 'An environment variable: in the library only the operating-system layer reads them.' '\bgetenv\s*\(' \
  lib '!lib/os/posix.cpp' '!lib/os/posix_library.cpp' '!lib/os/windows.cpp'
forbid 'An intrinsic header: only backends/cpu compiles for instruction sets.' \
  '#\s*include\s*<([a-z]*intrin|cpuid|arm_neon|arm_sve)\.h>' lib include backends bench examples '!backends/cpu' '!bench/ceilings'
exit $wrong
