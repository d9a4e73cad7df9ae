#!/usr/bin/env bash
# Two builds of a plug-in, of whose kernels one was edited: that one is timed again, alone. versions.sh POLYCONV_BENCH
# FAKE_BACKENDS FOLDER (which is made anew)
set -euo pipefail
bench=$1 fakes=$2 folder=$3
rm -rf "$folder"
mkdir -p "$folder"
db=$folder/tuning.txt
export POLYCONV_TUNING=on POLYCONV_TUNING_DB=$db OMP_NUM_THREADS=1
token=fwd:n1,c8,k8,i10x10,f3x3,p1

fail() {
  echo "$*" >&2
  exit 1
}
# with BUILD COMMAND...: polyconv-bench with that build of the plug-in beside no other but the reference.
with() {
  POLYCONV_BACKEND_PATH=$fakes/versions_$1 "$bench" "${@:2}" --kernel 'fake-versions/*'
}
# A budget that is never spent: on a busy machine too all candidates are timed.
tune() { with "$1" tune --tune 10 $token >>"$folder/log"; }
# versions KERNEL: those that the file has of it.
versions() { awk -F '\t' -v k="fake-versions/$1@" 'index($4, k) == 1 { print $5 }' "$db" | sort -u; }
# A line that was believed keeps its day; one that was taken again has today's.
age() { sed -i 's/[0-9]*-[0-9]*-[0-9]*$/2001-01-01/' "$db"; }
days() { awk -F '\t' -v k="fake-versions/$1@" 'index($4, k) == 1 { print $9 }' "$db" | sort -u; }
expect() { [[ $2 == "$3" ]] || fail "$1 is '$2', expected '$3'"; }

tune before
expect "the version of direct" "$(versions direct)" steady
expect "the version of negated" "$(versions negated)" before
age
tune before
expect "the day of direct" "$(days direct)" 2001-01-01
expect "the day of negated" "$(days negated)" 2001-01-01

# What was edited is not believed, the rest is.
told=$(with after explain $token)
(($(grep -c '2001-01-01' <<<"$told") == 1)) || fail "not direct alone is known: $told"
tune after
expect "the version of direct" "$(versions direct)" steady
expect "the day of direct" "$(days direct)" 2001-01-01
expect "the version of negated" "$(versions negated)" after
[[ $(days negated) != 2001-01-01 ]] || fail "the edited kernel was not timed again"

# Tables that end before versions: the plug-in's file stands for them, and all is timed again.
age
tune older
for kernel in direct negated; do
  [[ $(days $kernel) != 2001-01-01 ]] || fail "$kernel was believed without a version"
  if grep -qE 'steady|older' <<<"$(versions $kernel)"; then fail "a version was read behind the end of $kernel's table"; fi
done
expect "versions of one file" "$(versions direct)" "$(versions negated)"
echo "an edited kernel is timed again alone"
