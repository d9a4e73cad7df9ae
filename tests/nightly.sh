#!/usr/bin/env bash
# What is too long for every change: the whole CPU suite under sanitizers, the C consumer under valgrind, the static
# analysers; and by name alone clang, and other processors and systems under qemu and wine (docs/platforms.md says which
# have run).
#   tests/nightly.sh [PART...]      address thread valgrind analyse; all of these where none is named
#                                   clang libcxx aarch64 s390x i686 armhf riscv64 mingw musl packages-aarch64
# On two cores: address 60 minutes, thread 70, valgrind and analyse 10. The parts share nothing but the sources, so two
# machines may halve it. BUILDS (build) is where the build folders lie.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
builds=${BUILDS:-build}
jobs=$(nproc)
(($# > 0)) || set -- address thread valgrind analyse
rows=()
red=0

# part NAME COMMAND...: runs it and keeps a row for the table.
part() {
  local name=$1 start=$SECONDS verdict=green
  shift
  printf '== %s\n' "$name"
  "$@" || { verdict=RED red=1; }
  rows+=("$(printf '%-44s %-6s %5d s' "$name" "$verdict" $((SECONDS - start)))")
}

# suite FOLDER SANITIZERS: every CPU test, conformance with every random problem among them. -O1 keeps the checks' cost in
# bounds; the tests of packages and consumers build the tree again, which no sanitizer makes different.
suite() {
  local build=$builds/$1
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1" -DPOLYCONV_WARNINGS_AS_ERRORS=ON -DPOLYCONV_SANITIZE="$2" >/dev/null &&
    cmake --build "$build" &&
    ctest --test-dir "$build" --output-on-failure --no-tests=error -LE '^(house|consumer)$' --parallel "$jobs"
}

# At the baseline: valgrind knows no AVX-512.
under_valgrind() {
  command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; return 1; }
  cmake --preset cpu >/dev/null && cmake --build --preset cpu --target c_minimal backends/all &&
    POLYCONV_MAX_ISA=baseline valgrind --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite \
      build/cpu/bin/c_minimal
}

# clang's analyser over library, backends, bench and examples, and gcc's over what is C: gcc 12's knows C alone. A finding
# that is none is switched off where it stands, with the reason.
analysers() {
  cmake --preset cpu >/dev/null && cmake --build --preset cpu --target polyconv || return
  CHECKS='-*,clang-analyzer-*' cmake/tidy.sh build/cpu || return
  local file
  for file in examples/*.c tests/abi/*.c tests/consumer/*.c; do # to assembly: with -fsyntax-only nothing is analysed
    gcc -std=c99 -Wall -Wextra -fanalyzer -Werror -Iinclude -S -o /dev/null "$file" || return
  done
}

# preset NAME: configured, built and tested.
preset() {
  cmake --preset "$1" >"$builds/configure-$1.log" 2>&1 || { cat "$builds/configure-$1.log"; return 1; }
  cmake --build --preset "$1" && ctest --preset "$1" --parallel "$jobs"
}

# clang with its own C++ library, and a problem of each kind by the program.
libcxx() { preset libcxx && build/libcxx/bin/polyconv-bench check --suite tiny; }

for name in "$@"; do
  case $name in
    libcxx) part "preset libcxx" libcxx ;;
    clang | aarch64 | s390x | i686 | armhf | riscv64 | mingw | musl) part "preset $name" preset "$name" ;;
    packages-aarch64) part "packages for 64-bit Arm" env BUILDS="$builds" tests/packages_cross.sh ;;
    address) part "AddressSanitizer and UBSan, every CPU test" suite nightly-address address,undefined ;;
    thread) part "ThreadSanitizer, every CPU test" suite nightly-thread thread ;;
    valgrind) part "valgrind, the C consumer" under_valgrind ;;
    analyse) part "clang's and gcc's analysers" analysers ;;
    *) echo "nightly: '$name' is no part; expected address, thread, valgrind, analyse, clang, libcxx, aarch64, s390x, i686, armhf, riscv64, mingw, musl or packages-aarch64" >&2; exit 2 ;;
  esac
done
printf '\n'
printf '%s\n' "${rows[@]}"
exit $red
