#!/usr/bin/env bash
# Builds and runs a C program with nothing but pkg-config: build.sh PREFIX/lib COMPILER FOLDER
set -euo pipefail
libdir=$1 compiler=$2 folder=$3
source=$(dirname "${BASH_SOURCE[0]}")/../main.c
export PKG_CONFIG_PATH=$libdir/pkgconfig
mkdir -p "$folder"
# pkg-config quotes what it prints for a shell: the path may hold spaces.
eval "cflags=($(pkg-config --cflags polyconv)) libs=($(pkg-config --libs polyconv))"
"$compiler" -std=c99 "$source" "${cflags[@]}" "${libs[@]}" -o "$folder/consumer"
LD_LIBRARY_PATH=$libdir "$folder/consumer"
backends=$(pkg-config --variable=backendsdir polyconv)
[[ -d $backends || -d ${backends//\\/} ]] # pkgconf quotes spaces here too, pkg-config does not
