#!/usr/bin/env bash
# Builds and tests the tree where nothing of a developer's machine is: in bare Debian roots, from a copy without git, as an
# ordinary user, in the POSIX locale, in a path with spaces and umlauts, and at every instruction set that POLYCONV_MAX_ISA
# names. Needs root, debootstrap and Debian's archive; takes about half an hour a root on two cores.
#   tests/everywhere.sh [ROOT...]        bookworm trixie where none is named
# ROOTS (build/everywhere) keeps the roots between runs, MIRROR is the archive. Prints a table of roots, instruction sets and
# times at the end, and exits 1 where anything was red; the logs lie beside the roots.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source=$PWD
roots=${ROOTS:-$source/build/everywhere} mirror=${MIRROR:-http://deb.debian.org/debian}
user=stranger
isas=(baseline avx2 avx512 avx512_bf16 amx)
((EUID == 0)) || { echo "everywhere: needs root, for debootstrap and chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "everywhere: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }
(($# > 0)) || set -- bookworm trixie
table=()
red=0

# What quickstart wants, as it says it itself: it would ask for these as an ordinary user, and could not install them.
packages() { sed -n '/^debian_packages=(/,/)$/{s/^debian_packages=(//; s/)$//; p}' quickstart; }

# The root's own programs, with the machine's /proc and /dev, in a mount namespace that ends with the command.
inside() {
  local root=$1
  shift
  unshare --mount --propagation private bash -c '
    root=$1; shift
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    exec chroot "$root" "$@"' inside "$root" "$@"
}

make_root() {
  local suite=$1 root=$2
  [[ -e $root/made ]] && return
  rm -rf "$root"
  debootstrap --variant=minbase "$suite" "$root" "$mirror"
  cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
  # shellcheck disable=SC2046 # one word a package
  [[ -n $(packages) ]] && inside "$root" env DEBIAN_FRONTEND=noninteractive apt-get -y install --no-install-recommends $(packages)
  inside "$root" useradd --create-home "$user"
  touch "$root/made"
}

# The tree as an archive has it: what git would track or the whole folder where there is no git, without builds.
copy_tree() {
  local to=$1
  rm -rf "$to"
  mkdir -p "$to"
  tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$to" -xf -
}

# timed NAME LOG COMMAND...: runs it, adds a row to the table.
timed() {
  local name=$1 log=$2 start=$SECONDS verdict=green
  shift 2
  printf '== %s\n' "$name"
  "$@" >"$log" 2>&1 || { verdict=RED red=1; tail -n 40 "$log"; }
  table+=("$(printf '%-34s %-6s %4d s   %s' "$name" "$verdict" $((SECONDS - start)) \
    "$(grep -E 'tests passed|left out' "$log" | tail -n 1)")")
}

mkdir -p "$roots"
for suite in "$@"; do
  root=$roots/$suite
  printf '== %s: the root\n' "$suite"
  make_root "$suite" "$root" >"$roots/$suite-root.log" 2>&1 || { tail -n 20 "$roots/$suite-root.log"; exit 1; }
  home=$(inside "$root" getent passwd "$user" | cut -d: -f6)
  tree="$home/ein Verzeichnis für Übungen/polyconv"
  copy_tree "$root$tree"
  inside "$root" chown -R "$user:" "$home"
  as_stranger=(inside "$root" setpriv --reuid "$user" --regid "$user" --init-groups
    env -i HOME="$home" PATH=/usr/local/bin:/usr/bin:/bin LC_ALL=POSIX)
  timed "$suite, quickstart" "$roots/$suite-quickstart.log" "${as_stranger[@]}" bash -c 'cd "$1" && ./quickstart' - "$tree"
  timed "$suite, quickstart test" "$roots/$suite-test.log" "${as_stranger[@]}" bash -c 'cd "$1" && ./quickstart test' - "$tree"
  for isa in "${isas[@]}"; do
    timed "$suite, $isa" "$roots/$suite-$isa.log" "${as_stranger[@]}" bash -c 'cd "$1" && tests/each_isa.sh build/cpu "$2"' \
      - "$tree" "$isa"
  done
done
printf '\n'
printf '%s\n' "${table[@]}"
exit $red
