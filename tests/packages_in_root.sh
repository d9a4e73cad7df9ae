#!/usr/bin/env bash
# The Debian packages as a stranger meets them: built twice in different folders with the same bytes, installed into a bare
# root, used there by an ordinary user to compile and run a program, and removed without a trace. A gate of its own: it needs
# root, debootstrap, a Debian mirror and the time of two release builds.
#   packages_in_root.sh [--packages FOLDER] [--backends "reference;openmp"] [--root FOLDER]
# --packages takes packages that are there instead of building any, --backends builds only these, --root keeps the root for
# the next time (made by debootstrap where it is missing).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packages='' backends='' root=''
while (($# > 1)); do
  case $1 in
    --packages) packages=$(realpath "$2") ;;
    --backends) backends=$2 ;;
    --root) root=$2 ;;
    *) break ;;
  esac
  shift 2
done
(($# == 0)) || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
((EUID == 0)) || { echo "packages_in_root.sh: needs root, for chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "packages_in_root.sh: install debootstrap" >&2; exit 2; }

step() { printf '== %s\n' "$*"; }
fail() { printf 'packages_in_root.sh: %s\n' "$*" >&2; exit 1; }
work=$(mktemp -d)
cleanup() {
  [[ -z $root ]] || { mountpoint -q "$root/proc" && umount "$root/proc"; } || true
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# build NAME: the packages of a copy of this tree in a folder of that name
build() {
  mkdir -p "$work/$1/source"
  tar c --exclude=./build --exclude=./.git . | tar x -C "$work/$1/source"
  (cd "$work/$1/source" &&
    cmake --preset release -B "$work/$1/build" -DPOLYCONV_BACKENDS_ONLY="$backends" &&
    cmake --build "$work/$1/build" && cd "$work/$1/build" && cpack -G DEB) >"$work/$1.log" 2>&1 ||
    { tail -n 30 "$work/$1.log"; fail "building the packages failed"; }
}

if [[ -z $packages ]]; then
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y CMakeLists.txt)}
  step "building the packages"
  build first
  step "building them again, in another folder"
  build in_a_folder_with_a_longer_name
  packages=$work/first/build
  for package in "$packages"/*.deb; do
    cmp "$package" "$work/in_a_folder_with_a_longer_name/build/${package##*/}" || fail "${package##*/} differs from build to build"
  done
  step "the same bytes: $(ls "$packages"/*.deb | wc -l) packages"
fi
compgen -G "$packages/libpolyconv0_*.deb" >/dev/null || fail "no packages in $packages"

suite=$(. /etc/os-release && echo "$VERSION_CODENAME") # packages belong to the Debian that they were built on
root=${root:-$work/root}
if [[ ! -x $root/usr/bin/apt-get ]]; then
  step "debootstrap $suite"
  debootstrap --variant=minbase "$suite" "$root" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 5 "$work/debootstrap.log"; fail "debootstrap failed"; }
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
ours() { inside find / -xdev '(' -path /proc -o -path /packages -o -path /home ')' -prune -o -name '*polyconv*' -print; }

step "installing"
inside dpkg-query -W gcc libc6-dev pkg-config >/dev/null 2>&1 ||
  inside sh -c 'apt-get -q update && apt-get -qy install --no-install-recommends gcc libc6-dev pkg-config' >"$work/apt.log" 2>&1 ||
  { tail -n 5 "$work/apt.log"; fail "installing gcc failed"; }
before=$(ours)
[[ -z $before ]] || fail "the root is not bare: $before"
rm -rf "$root/packages" && mkdir "$root/packages" && cp "$packages"/*.deb "$root/packages/"
inside sh -c 'apt-get -qy install --no-install-recommends /packages/*.deb' >"$work/apt.log" 2>&1 ||
  { tail -n 20 "$work/apt.log"; fail "installing the packages failed"; }

step "a program, as an ordinary user"
inside id stranger >/dev/null 2>&1 || inside useradd --create-home stranger
cp tests/consumer/main.c "$root/home/stranger/main.c"
inside su stranger -c 'cd && cc -std=c99 -Wall -Werror main.c $(pkg-config --cflags --libs polyconv) -o program && ./program' ||
  fail "the program does not build or run"
if inside sh -c 'command -v polyconv-bench' >/dev/null; then
  inside su stranger -c 'polyconv-bench check fwd:n1,c8,k8,i9x9,f3x3,p1:relu' >"$work/check.log" ||
    { cat "$work/check.log"; fail "polyconv-bench check"; }
fi
inside sh -c 'dpkg --verify libpolyconv0 libpolyconv-dev' || fail "installed files differ from the packages"

step "removing"
inside sh -c 'apt-get -qy purge "libpolyconv*" "polyconv-*"' >"$work/apt.log" 2>&1 || { tail "$work/apt.log"; fail "removing failed"; }
rm -rf "$root/packages" "$root/home/stranger/program"
left=$(ours)
[[ -z $left ]] || fail "left behind: $left"
step "nothing is left; all good"
