#!/usr/bin/env bash
# Installs a build into a fresh prefix, then moves that prefix, so that every consumer also shows that an installed tree
# can be moved: install.sh CMAKE BUILD PREFIX
set -euo pipefail
cmake=$1 build=$2 prefix=$3
rm -rf "$prefix" "$prefix.before"
"$cmake" --install "$build" --prefix "$prefix.before" >/dev/null
mv "$prefix.before" "$prefix"

fail() {
  echo "$*" >&2
  exit 1
}
[[ $(head -n 1 "$prefix"/lib*/polyconv/tuning.txt) == '# polyconv tuning 1' ]] || fail "no place for the times that ship"
bench=$prefix/bin/polyconv-bench
[[ -x $bench ]] || exit 0
# What shells and man find beside the program is what it says itself.
same() { cmp "$prefix/share/$1" <("$bench" "${@:2}") || fail "share/$1 is not what '${*:2}' says"; }
same man/man1/polyconv-bench.1 man
same bash-completion/completions/polyconv-bench completion bash
same zsh/site-functions/_polyconv-bench completion zsh
same fish/vendor_completions.d/polyconv-bench.fish completion fish
