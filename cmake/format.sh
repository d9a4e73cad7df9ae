#!/usr/bin/env bash
# Formats every C, C++ and CUDA file that git tracks or does not ignore by .clang-format; with --check only says which differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
[[ ${1:-} == --check ]] && mode=(--dry-run -Werror)
git ls-files -z --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' '*.inc' '*.cu' '*.cuh' | xargs -0 -n 32 -P 2 clang-format --style=file "${mode[@]}"
