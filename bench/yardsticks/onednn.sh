#!/usr/bin/env bash
# onednn.sh: builds the oneDNN that the backend `onednn` is measured with, in a folder outside the repository.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'HELP'
usage: bench/yardsticks/onednn.sh FOLDER [--version V] [--source GIT] [--jobs N] [--isa SET]

Builds oneDNN V (3.13.1) from GIT (https://github.com/uxlfoundation/oneDNN, or a clone of it) for the CPU: convolution and
reorder alone, threads by OpenMP, every instruction set, or those up to SET (SSE41, AVX2, AVX512, AMX). Source, build and
result stay in FOLDER, which must lie outside this repository; FOLDER/lib and FOLDER/include are what ONEDNN_ROOT wants:

  cmake --preset cpu -DPOLYCONV_ONEDNN=ON -DONEDNN_ROOT=FOLDER

About 70 minutes of one core (AVX2: half), 3 GiB of disk. Where that version already stands there nothing is done; one
that was interrupted goes on. CMAKE_CXX_COMPILER_LAUNCHER (ccache) is obeyed, as is `nice`.
HELP
}

fail() {
  echo "onednn.sh: $1" >&2
  exit 2
}

folder='' version=3.13.1 source=https://github.com/uxlfoundation/oneDNN jobs=$(nproc) isa=ALL
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --version | --source | --jobs | --isa)
      [ $# -ge 2 ] || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift ;;
    -*) fail "unknown option $1 (--help tells them)" ;;
    *) [ -z "$folder" ] || fail "one folder is expected, not $folder and $1"; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || { usage >&2; exit 2; }
[[ $version =~ ^3\.[0-9]+(\.[0-9]+)?$ ]] || fail "--version $version: a release of oneDNN 3 is expected, as 3.13.1"
[[ $jobs =~ ^[1-9][0-9]*$ ]] || fail "--jobs $jobs: a number from 1 is expected"
[[ $isa =~ ^(ALL|SSE41|AVX2|AVX512|AMX)$ ]] || fail "--isa $isa: SSE41, AVX2, AVX512, AMX or ALL is expected"

folder=$(realpath -m "$folder")
repository=$(realpath "$(dirname "$0")/../..")
case $folder/ in "$repository"/*) fail "$folder lies in this repository: name a folder outside it" ;; esac
mkdir -p "$folder"

# What stands there, as its own header tells: the library is installed last.
built() {
  local header=$folder/include/oneapi/dnnl/dnnl_version.h
  [ -e "$folder/lib/libdnnl.so.3" ] && [ -e "$header" ] || return 1
  sed -n 's/^#define DNNL_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$header" | paste -sd.
}

wanted=$version
[[ $version == *.*.* ]] || wanted=$version.0
if [ "$(built || true)" = "$wanted" ]; then
  echo "oneDNN $wanted stands in $folder"
  exit 0
fi

[ -d "$folder/source/.git" ] || git clone --quiet --no-checkout --filter=blob:none "$source" "$folder/source"
git -C "$folder/source" rev-parse --quiet --verify "v$version^{commit}" > /dev/null ||
  git -C "$folder/source" fetch --quiet "$source" "refs/tags/v$version:refs/tags/v$version" ||
  fail "$source has no tag v$version"
git -C "$folder/source" -c advice.detachedHead=false checkout --quiet --force "v$version"

rm -rf "$folder/lib" "$folder/include"
cmake -S "$folder/source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" \
  -DCMAKE_INSTALL_LIBDIR=lib -DONEDNN_CPU_RUNTIME=OMP -DONEDNN_GPU_RUNTIME=NONE -DONEDNN_BUILD_GRAPH=OFF \
  -DONEDNN_BUILD_TESTS=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_DOC=OFF -DONEDNN_ENABLE_WORKLOAD=TRAINING \
  "-DONEDNN_ENABLE_PRIMITIVE_CPU_ISA=$isa" '-DONEDNN_ENABLE_PRIMITIVE=CONVOLUTION;REORDER' \
  > "$folder/configure.log" || fail "$folder/configure.log tells what failed"
ninja -C "$folder/build" -j "$jobs"
cmake --install "$folder/build" > "$folder/install.log"
[ "$(built || true)" = "$wanted" ] || fail "$folder holds oneDNN $(built || echo none), $wanted was asked for"
echo "oneDNN $wanted stands in $folder: ONEDNN_ROOT=$folder"
