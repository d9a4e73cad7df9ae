#!/usr/bin/env bash
# dpkg-shlibdeps for binaries of another processor, as cpack calls it: cross_shlibdeps.sh ARCHITECTURE ARGUMENT...
# Their libraries lie with the cross compiler, in packages whose names and versions become those of the processor's own.
# Where such a package names no version, the one that was linked is the oldest that is known to serve.
set -euo pipefail
arch=$1
shift
[[ $* == *-O* ]] || exec dpkg-shlibdeps "$@" # --version, --help
triplet=$(dpkg-architecture -a "$arch" -q DEB_HOST_GNU_TYPE)
answer=$(dpkg-shlibdeps "-l/usr/$triplet/lib" "$@")
packages=()
IFS=, read -ra words <<<"${answer#shlibs:Depends=}"
for word in "${words[@]}"; do
  read -r name version <<<"$word" # "libc6:arm64 (>= 2.36)"
  name=${name%":$arch"} name=${name%"-$arch-cross"}
  if [[ -z $version ]]; then
    version=$(dpkg-query -W -f '${Version}' "$name-$arch-cross")
    version="(>= ${version%%.*})"
  fi
  packages+=("$name $version")
done
printf 'shlibs:Depends=%s' "${packages[0]}"
printf ', %s' "${packages[@]:1}"
printf '\n'
