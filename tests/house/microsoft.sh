#!/usr/bin/env bash
# The headers that programs and backends include are such as Microsoft's compiler takes, as far as clang plays it:
#   microsoft.sh (from the root of the source)
# C's with the target's own idea of Windows and nothing of its library; those of C++ with this machine's library, as no other
# is here. Exit code 77, with the reason, where there is no clang.
set -euo pipefail
command -v clang >/dev/null && command -v clang++ >/dev/null || { echo "skipped: no clang here"; exit 77; }
microsoft=(-fms-compatibility -fms-extensions -fms-compatibility-version=19.30 -Wall -Wextra -Werror -Wno-#warnings -fsyntax-only)
# Macros that clang does not have in this mode, and the library of gcc reads.
atomics=(-D__GCC_ATOMIC_TEST_AND_SET_TRUEVAL=1)
for kind in BOOL CHAR CHAR16_T CHAR32_T CHAR8_T WCHAR_T SHORT INT LONG LLONG POINTER; do
  atomics+=("-D__GCC_ATOMIC_${kind}_LOCK_FREE=2")
done
checked=0
while read -r header; do
  clang --target=x86_64-pc-windows-msvc -ffreestanding -x c -std=c99 "${microsoft[@]}" -Iinclude -include "$header" /dev/null
  clang++ --target=x86_64-pc-windows-msvc -ffreestanding -x c++ -std=c++17 "${microsoft[@]}" -Iinclude -include "$header" /dev/null
  checked=$((checked + 1))
done < <(find include backends/sdk/include -name '*.h')
while read -r header; do
  clang++ -x c++ -std=c++17 "${microsoft[@]}" "${atomics[@]}" -Iinclude -Ibackends/sdk/include -include "$header" /dev/null
  checked=$((checked + 1))
done < <(find include backends/sdk/include -name '*.hpp') # as cmake/PolyconvInstall.cmake installs them
printf '%d headers\n' "$checked"
((checked > 5))
