#!/usr/bin/env bash
# No operating-system call outside lib/os_posix.cpp and lib/os_windows.cpp, and no x86 intrinsic outside backends/cpu,
# where tests/isa looks at the objects themselves: portability.sh (from the root of the source)
set -euo pipefail
wrong=0

# forbid SENTENCE PATTERN PATH...: prints what git tracks there and matches.
forbid() {
  local sentence=$1 pattern=$2
  shift 2
  if git grep -nE "$pattern" -- "$@"; then
    printf '%s\n\n' "$sentence"
    wrong=1
  fi
}

git ls-files --error-unmatch lib/os_posix.cpp >/dev/null # the patterns below must have something to look at

headers='#\s*include\s*<(dlfcn|unistd|windows|fcntl|pthread|sched|dirent|link|poll|signal|pwd|libgen|spawn|direct|io)\.h>'
headers+='|#\s*include\s*<(sys|arpa|netinet|linux|mach|mach-o)/'
forbid 'An operating-system header: only lib/os_posix.cpp and lib/os_windows.cpp may include it.' "$headers" \
  lib include backends/sdk/include backends/reference backends/cpu backends/openmp backends/tbb \
  ':!lib/os_posix.cpp' ':!lib/os_windows.cpp'
forbid 'A call of the operating system: it belongs into lib/os_posix.cpp and lib/os_windows.cpp.' \
  '\b(dlopen|dlsym|dladdr|LoadLibrary[AW]?|GetProcAddress|opendir|readdir|mmap|secure_getenv)\s*\(' \
  lib backends/sdk/include backends/reference backends/cpu backends/openmp backends/tbb \
  ':!lib/os_posix.cpp' ':!lib/os_windows.cpp'
forbid 'An environment variable: in the library only the operating-system layer reads them.' '\bgetenv\s*\(' \
  lib ':!lib/os_posix.cpp' ':!lib/os_windows.cpp'
forbid 'An x86 intrinsic header: only backends/cpu compiles for instruction sets.' \
  '#\s*include\s*<([a-z]*intrin|cpuid)\.h>' lib include backends bench examples ':!backends/cpu' ':!bench/ceilings'
exit $wrong
