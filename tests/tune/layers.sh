#!/usr/bin/env bash
# The layers of the tuning database, each said by hand to have another fastest kernel: what ships with the library, the
# site's, the user's; and lines that hold for all machines of a kind. layers.sh POLYCONV_BENCH LIBRARY REFERENCE_PLUG_IN
# SHIP FOLDER (which is made anew), where SHIP is bench/tuning/ship.sh
set -euo pipefail
bench=$1 library=$2 plug_in=$3 ship=$4 folder=$5
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
# As lines for all processors with these instruction sets: believed whatever the name and the compiler, told apart from
# what was measured here, and no reason not to time; of other sources or instruction sets they say nothing.
of_kind="measured .*on a machine of this kind on 2004-04-04"
day "$folder/fourth.txt" 2004-04-04
bash "$ship" rest "$folder/fourth.txt" | sed -E 's|/[0-9a-f]{6}\t|/aaaaaa\t|' >"$shipped"
awk -F '\t' 'NF == 9 && $3 !~ /^\*; / { exit 1 }' "$shipped" || fail "a line that ships has a name: $(cat "$shipped")"
told=$(explain) && grep -q "$of_kind" <<<"$told" || fail "a line for all of a kind is not believed: $told"
grep -q "$of_kind" < <(POLYCONV_LOG=info "$bench" run --min-time 0 --cache warm-only $token 2>&1) || fail "the log does not say so"
cp "$shipped" "$folder/before"
sed -E 's|\t[0-9a-f]{12}/|\t000000000000/|' "$folder/before" >"$shipped"
says_not
sed 's/\*; [^\t]*/*; x87/' "$folder/before" >"$shipped"
says_not
bash "$ship" name "$folder/fourth.txt" >"$shipped"
told=$(explain) && grep -q "$of_kind" <<<"$told" || fail "a line for all of a name is not believed: $told"
"$bench" tune --tune 10 $token >>"$folder/log"
says "$(date -u +%Y)"
if bash "$ship" both "$folder/fourth.txt" 2>"$folder/error"; then fail "ship.sh took another word"; fi
echo "what ships, the site's and the user's files are read in this order"
