#!/usr/bin/env bash
# The packages for 64-bit Arm as this machine cross-builds them, Debian's and an archive: their architecture, that every
# binary in them is that processor's, that both hold the same files, and, where qemu-aarch64 is, that what is in them runs.
#   packages_cross.sh [CMAKE_ARGUMENT...]      -DPOLYCONV_CPU_ISAS=neon for a quick look
# Needs g++-aarch64-linux-gnu, dpkg-dev and file. BUILDS (build) is where the build folder lies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath -m "${BUILDS:-build}")/release-aarch64
out=$build/packages
fail() { printf 'packages_cross.sh: %s\n' "$*" >&2; exit 1; }
for tool in aarch64-linux-gnu-g++ dpkg-deb dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install g++-aarch64-linux-gnu dpkg-dev file"
done

mkdir -p "$build"
{ cmake --preset release-aarch64 -B "$build" "$@" && cmake --build "$build"; } >"$build/packages.log" 2>&1 ||
  { tail -n 30 "$build/packages.log"; fail "the build failed"; }
rm -rf "$out"
for generator in DEB TGZ; do
  cpack -G "$generator" --config "$build/CPackConfig.cmake" -B "$out" >>"$build/packages.log" 2>&1 ||
    { tail -n 30 "$build/packages.log"; fail "cpack -G $generator failed"; }
done

# every_binary FOLDER: how many there are; none may be another processor's
every_binary() {
  local path kind count=0
  while read -r path; do
    kind=$(file --brief "$path")
    [[ $kind == ELF* ]] || continue
    [[ $kind == *'ARM aarch64'* ]] || fail "$path is $kind"
    count=$((count + 1))
  done < <(find "$1" -type f)
  printf '%s' "$count"
}
files() { (cd "$1" && find . ! -type d | sort); }

mkdir "$out/each"
for package in "$out"/*.deb; do
  name=${package##*/}
  [[ $name == *_arm64.deb ]] || fail "$name is not called arm64"
  [[ $(dpkg-deb --field "$package" Architecture) == arm64 ]] || fail "$name: Architecture: $(dpkg-deb --field "$package" Architecture)"
  dpkg-deb --extract "$package" "$out/root"
  dpkg-deb --extract "$package" "$out/each/$name"
  binaries=$(every_binary "$out/each/$name")
  if [[ $name == *-dev_* ]]; then
    [[ $binaries == 0 ]] || fail "$name holds $binaries binaries, expected none"
  else
    ((binaries > 0)) || fail "$name holds no binary"
    dpkg-deb --field "$package" Depends | grep -q 'libc6' || fail "$name does not depend on libc6"
  fi
  printf '%-50s %3d files, %d binaries; %s\n' "$name" "$(files "$out/each/$name" | wc -l)" "$binaries" \
    "$(dpkg-deb --field "$package" Depends)"
done
[[ -e $out/root/usr/lib/aarch64-linux-gnu/libpolyconv.so.0 ]] || fail "no libpolyconv.so.0 among $(files "$out/root")"

archives=("$out"/*.tar.gz)
[[ ${#archives[@]} == 1 && ${archives[0]} == *-aarch64.tar.gz ]] || fail "expected one *-aarch64.tar.gz, have ${archives[*]}"
mkdir "$out/archive"
tar -xzf "${archives[0]}" -C "$out/archive" --strip-components=1
diff <(files "$out/root") <(files "$out/archive") || fail "the archive holds other files than the packages"
printf '%-50s %3d files, %d binaries\n' "${archives[0]##*/}" "$(files "$out/archive" | wc -l)" "$(every_binary "$out/archive")"

if command -v qemu-aarch64 >/dev/null; then
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$out/archive/usr/bin/polyconv-bench" check fwd:n1,c8,k8,i9x9,f3x3,p1:relu
else
  echo "not run: no qemu-aarch64 here (Debian: qemu-user)"
fi
