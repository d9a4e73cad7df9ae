#!/usr/bin/env bash
# The layers of the tuning database, each said by hand to have another fastest kernel: what ships with the library, the
# site's, the user's. layers.sh POLYCONV_BENCH LIBRARY REFERENCE_PLUG_IN FOLDER (which is made anew)
set -euo pipefail
bench=$1 library=$2 plug_in=$3 folder=$4
rm -rf "$folder"
mkdir -p "$folder/lib/polyconv"
# A library of its own, beside which a file of its own ships.
cp -L "$library" "$folder/lib/libpolyconv.so.0"
cp -L "$plug_in" "$folder/lib/polyconv/"
shipped=$folder/lib/polyconv/tuning.txt site=$folder/site.txt user=$folder/user.txt
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} POLYCONV_TUNING=on POLYCONV_MAX_ISA=baseline OMP_NUM_THREADS=1
export POLYCONV_TUNING_DB=$site:$user
token=fwd:n1,c8,k8,i10x10,f3x3,p1

fail() {
  echo "$*" >&2
  exit 1
}
explain() { "$bench" explain $token; }

# A layer is filled by name, and no other is written.
"$bench" tune --tune 10 --database "$folder/made.txt" $token >>"$folder/log"
[[ -s $folder/made.txt && ! -e $site && ! -e $user && ! -e $shipped ]] || fail "not the named file alone was written"
if "$bench" tune --database 'a:b.txt' $token 2>"$folder/error"; then fail "a name with a colon was taken"; fi
grep -qF "expected a path without" "$folder/error" || fail "it says: $(cat "$folder/error")"

# day FILE DAY: those times, taken on that day.
day() { sed -E "s/[0-9]{4}-[0-9]{2}-[0-9]{2}$/$2/" "$folder/made.txt" >"$1"; }
says() { told=$(explain) && grep -qF "here on $1" <<<"$told" || fail "not on $1: $told"; }
says_not() { told=$(explain) && ! grep -qF "measured" <<<"$told" || fail "measured: $told"; }
says_not
day "$shipped" 2001-01-01
says 2001-01-01
day "$site" 2002-02-02
says 2002-02-02
day "$user" 2003-03-03
says 2003-03-03

# What ships is never written, and what it knows is not timed again.
rm "$site" "$user"
cp "$shipped" "$folder/before"
"$bench" tune --tune 10 $token >>"$folder/log"
cmp -s "$shipped" "$folder/before" || fail "the file that ships was written"
[[ ! -e $user ]] || fail "what ships was timed again"

# Stale, it is left alone, and that is told once.
awk -F '\t' -v OFS='\t' 'NF == 9 { $5 = "000000000000" } { print }' "$folder/before" >"$shipped"
says_not
heard=$(POLYCONV_LOG=info "$bench" explain $token 2>&1)
(($(grep -c 'of another version of it' <<<"$heard") == 1)) || fail "expected one line about other versions: $heard"
heard=$(POLYCONV_LOG=warning "$bench" explain $token 2>&1)
if grep -q 'another version' <<<"$heard"; then fail "that is no warning: $heard"; fi
echo "what ships, the site's and the user's files are read in this order"
