#!/usr/bin/env bash
# Installs a build into a fresh prefix, then moves that prefix, so that every consumer also shows that an installed tree
# can be moved: install.sh CMAKE BUILD PREFIX
set -euo pipefail
cmake=$1 build=$2 prefix=$3
rm -rf "$prefix" "$prefix.before"
"$cmake" --install "$build" --prefix "$prefix.before" >/dev/null
mv "$prefix.before" "$prefix"
