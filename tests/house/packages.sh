#!/usr/bin/env bash
# The Debian packages: which there are, that each backend is alone in its own, and what they depend on:
#   packages.sh CPACK BUILD OUTPUT SONAME_NUMBER BACKEND...
set -euo pipefail
cpack=$1 build=$2 output=$3 so=$4
shift 4
fail() { printf '%s\n' "$*"; exit 1; }

# Where a tool is missing, nothing is made, and the sentence names what to install. No tool is in an empty PATH.
mkdir -p "$output.none"
if said=$(PATH=$output.none "$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$output.none" 2>&1); then
  fail "cpack makes packages without dpkg-shlibdeps"
fi
[[ $said == *"Debian packages need dpkg-shlibdeps and file: apt-get install dpkg-dev file"* ]] || fail "cpack says: $said"
rm -rf "$output.none"

for tool in dpkg-deb dpkg-shlibdeps file; do
  command -v $tool >/dev/null || { echo "skipped: $tool is missing"; exit 77; }
done
rm -rf "$output"
"$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$output" >"$build/packages.log" 2>&1 || { cat "$build/packages.log"; exit 1; }

package() { # the file of a package
  local files=("$output/$1"_*.deb)
  [[ -f ${files[0]} && ${#files[@]} == 1 ]] || fail "no package $1 in $(ls "$output")"
  printf '%s' "${files[0]}"
}
holds() { dpkg-deb --contents "$(package "$1")" | awk '{ print $6 }' | grep -qE "$2" || fail "$1 holds no $2"; }
field() { dpkg-deb --field "$(package "$1")" "$2"; }

holds "libpolyconv$so" "/libpolyconv\.so\.$so$"
holds libpolyconv-dev '/include/polyconv/polyconv\.h$'
holds libpolyconv-dev '/include/polyconv/sdk/backend\.hpp$'
holds libpolyconv-dev '/libpolyconv\.so$'
holds libpolyconv-dev '/polyconv-config\.cmake$'
holds libpolyconv-dev '/polyconv\.pc$'
holds libpolyconv-dev '/polyconv\.spdx\.json$'
holds "libpolyconv$so" '/polyconv/tuning\.txt$'
if compgen -G "$output/polyconv-tools_*.deb" >/dev/null; then
  holds polyconv-tools '/man/man1/polyconv-bench\.1$'
  holds polyconv-tools '/bash-completion/completions/polyconv-bench$'
  holds polyconv-tools '/zsh/site-functions/_polyconv-bench$'
  holds polyconv-tools '/fish/vendor_completions\.d/polyconv-bench\.fish$'
fi
dpkg-deb --contents "$(package "libpolyconv$so")" | grep -q '/polyconv/libpolyconv_' && fail "the runtime package holds a backend"
field "libpolyconv$so" Depends | grep -q libc6 || fail "the runtime package does not depend on libc6"
for backend in "$@"; do
  name=polyconv-backend-$backend
  holds "$name" "/polyconv/libpolyconv_${backend//-/_}\.so$"
  [[ $(dpkg-deb --contents "$(package "$name")" | grep -c '\.so') == 1 ]] || fail "$name holds more than its backend"
  field "$name" Depends | grep -q "libpolyconv$so (>= " || fail "$name does not depend on libpolyconv$so"
  case $backend in
    openmp) field "$name" Depends | grep -qE 'libgomp1|libomp5' || fail "$name does not depend on an OpenMP runtime" ;;
    tbb) field "$name" Depends | grep -q libtbb12 || fail "$name does not depend on libtbb12" ;;
    reference | threads) field "$name" Depends | grep -qE 'libgomp1|libtbb' && fail "$name depends on a thread runtime" ;;
  esac
done
ls "$output"/*.deb
