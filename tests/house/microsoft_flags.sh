#!/usr/bin/env bash
# The CMake files, for Microsoft's compiler, give its flags and its libraries alone, as far as clang-cl plays it:
#   microsoft_flags.sh CMAKE SOURCE FOLDER
# The tree is configured below FOLDER, not built: nothing of Windows is needed. Exit code 77, with the reason, where there is
# no clang-cl.
set -euo pipefail
cmake=$1 source=$2 folder=$3
compiler=$(command -v clang-cl || command -v clang-cl-14) || { echo "skipped: no clang-cl here (Debian: clang)"; exit 77; }
command -v ninja >/dev/null || { echo "skipped: no ninja here"; exit 77; }
rm -rf "$folder"
mkdir -p "$folder"
# A librarian of a few lines: what CMake asks of the compiler, it reads from the objects that it collects.
cat >"$folder/librarian" <<'END'
#!/bin/sh
for word; do
  case $word in
    /out:*) out=${word#/out:} ;;
    *.obj) cat "$word" >>"$out" ;;
  esac
done
END
chmod +x "$folder/librarian"
cat >"$folder/microsoft.cmake" <<END
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_C_COMPILER "$compiler")
set(CMAKE_CXX_COMPILER "$compiler")
set(CMAKE_C_COMPILER_WORKS ON)
set(CMAKE_CXX_COMPILER_WORKS ON)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_AR "$folder/librarian")
foreach(tool LINKER MT RC_COMPILER)
  set(CMAKE_\${tool} true)
endforeach()
set(CMAKE_HAVE_PTHREADS_CREATE OFF) # nothing is linked here, so every library would seem to be there
set(CMAKE_HAVE_PTHREAD_CREATE OFF)
END

# flags NAME TREE ARGUMENT...: configured with the arguments; the flags that are no such are named.
flags() {
  local build=$folder/$1 tree=$2 odd
  shift 2
  env -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER "$cmake" -S "$tree" -B "$build" -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE="$folder/microsoft.cmake" -DPOLYCONV_WARNINGS_AS_ERRORS=ON "$@" >"$build.log" 2>&1 ||
    { cat "$build.log"; exit 1; }
  grep -q '^  FLAGS = .*/WX' "$build/build.ninja" || { echo "$build/build.ninja: no flags found"; exit 1; }
  odd=$(sed -nE 's/^  (FLAGS|LINK_FLAGS|LINK_LIBRARIES) = //p' "$build/build.ninja" | tr ' ' '\n' | sort -u |
    grep -vE '^(|[/].*|-(D|I|imsvc).*|-std:c.*|-MDd?|-Zi|.*\.(lib|obj))$') || true
  if grep -qwE 'm\.lib|dl\.lib|pthreads?\.lib' "$build/build.ninja"; then odd+=" a library of POSIX systems"; fi
  [[ -z $odd ]] || { printf 'for Microsoft, in %s/build.ninja: %s\n' "$build" "${odd//$'\n'/ }"; exit 1; }
}
flags release "$source"
if { command -v dpkg-shlibdeps && command -v file; } >/dev/null; then # which that option asks for
  flags packages "$source" -DPOLYCONV_PACKAGES=ON -DPOLYCONV_BUILD_TESTS=OFF
fi
# Inside a project that chose no build type.
mkdir "$folder/around"
cat >"$folder/around/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(around C CXX)
add_subdirectory("$source" polyconv)
END
flags inside "$folder/around"
echo "$(grep -c '^build .*\.obj: ' "$folder/release/build.ninja") objects and $(grep -cE '^build .*\.(dll|exe)' "$folder/release/build.ninja") files linked"
