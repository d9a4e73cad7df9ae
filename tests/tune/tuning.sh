#!/usr/bin/env bash
# The tuning database as users see it: tuning.sh POLYCONV_BENCH FOLDER (which is made anew)
set -euo pipefail
bench=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
unset XDG_CACHE_HOME
export POLYCONV_TUNING=on POLYCONV_MAX_ISA=baseline OMP_NUM_THREADS=1
token=fwd:n1,c8,k8,i10x10,f3x3,p1

fail() {
  echo "$*" >&2
  exit 1
}
# use NAME: the database of the next commands.
use() { db=$folder/$1.txt && export POLYCONV_TUNING_DB=$db; }
tune() { "$bench" tune --tune 10 "$@" >>"$folder/log"; }
# Every line but the first has nine fields, and they are sorted and without repetition.
whole() {
  [[ $(head -n 1 "$1") == '# polyconv tuning 1' ]] || fail "$1 has no first line"
  tail -n +2 "$1" | awk -F '\t' 'NF != 9 { exit 1 }' || fail "$1 has a torn line"
  [[ -z $(tail -n +2 "$1" | cut -f 1-4 | sort | uniq -d) ]] || fail "$1 says something twice"
}
lines() { tail -n +2 "$1" | wc -l; }
says() { grep -qF -- "$2" <<<"$1" || fail "expected '$2' in: $1"; }
says_not() { if grep -qF -- "$2" <<<"$1"; then fail "did not expect '$2' in: $1"; fi; }
tokens_in() { tail -n +2 "$1" | cut -f 1 | sort -u | wc -l; }

# What is timed is kept, told with its day, and not timed again.
use plain
says_not "$("$bench" explain $token)" "measured"
[[ ! -e $db ]] || fail "asking wrote a file"
tune $token
whole "$db"
(($(lines "$db") >= 2)) || fail "fewer than two kernels were timed"
says "$("$bench" explain $token)" "us here on $(date -u +%Y-%m-%d | cut -c 1-7)"
cp "$db" "$folder/before"
tune $token
cmp -s "$db" "$folder/before" || fail "what was known was timed again"

# The fastest of the file is taken, whatever the estimates say: here one that was made the fastest by hand.
chosen() { "$bench" explain $token | sed -n '2s/^ *//p'; }
best=$(chosen)
guess=$(POLYCONV_TUNING=off chosen)
other=$(tail -n +2 "$db" | cut -f 4 | grep -vxF -e "$best" -e "$guess" | head -n 1)
awk -F '\t' -v OFS='\t' -v k="$other" '$4 == k { $6 = 0.001; $7 = 0 } { print }' "$folder/before" >"$db"
[[ $(chosen) == "$other" ]] || fail "$(chosen) was taken instead of $other"
[[ $(POLYCONV_TUNING=off chosen) == "$guess" ]] || fail "off reads the file"

# Of times that cannot be told apart the choice is the same whichever is the shorter by a little.
for shorter in "$best" "$other"; do
  awk -F '\t' -v OFS='\t' -v a="$best" -v b="$other" -v s="$shorter" \
    '$4 == a || $4 == b { $6 = $4 == s ? 5 : 5.1; $7 = 0.5 } NF == 9 && $4 != a && $4 != b { $6 = 50 } { print }' \
    "$folder/before" >"$db"
  chosen >>"$folder/settled"
done
[[ $(sort -u "$folder/settled" | wc -l) == 1 ]] || fail "the noise decides"

# Times of a kernel that is another by now are not believed, and are taken again.
awk -F '\t' -v OFS='\t' 'NF == 9 { $5 = "000000000000" } { print }' "$folder/before" >"$db"
says_not "$("$bench" explain $token)" "measured"
tune $token
if grep -q 000000000000 "$db"; then fail "another kernel's times stayed"; fi

# freeze reads, and neither times nor writes; nor does tune pretend to.
use frozen
says_not "$(POLYCONV_TUNING=freeze "$bench" explain --tune 0.05 $token)" "measured"
[[ ! -e $db ]] || fail "freeze wrote a file"
if POLYCONV_TUNING=freeze "$bench" tune $token 2>"$folder/error"; then fail "tune took freeze"; fi
says "$(cat "$folder/error")" "POLYCONV_TUNING is freeze"
cp "$folder/before" "$db"
says "$(POLYCONV_TUNING=freeze "$bench" explain $token)" "here on"

# A file read before the user's own is not written.
use site
cp "$folder/before" "$db"
says "$(POLYCONV_TUNING_DB=$db:$folder/own.txt "$bench" explain $token)" "here on"
POLYCONV_TUNING_DB=$db:$folder/own.txt tune fwd:n1,c4,k4,i10x10,f3x3
cmp -s "$db" "$folder/before" || fail "the first of two files was written"
[[ $(tokens_in "$folder/own.txt") == 1 ]] || fail "the last of two files was not written"

# Two files one behind the other are one; torn and foreign lines are skipped, with one warning.
use joined
{ cat "$folder/before" "$folder/own.txt"; printf 'nonsense\n%s' "$(sed -n 2p "$folder/before" | cut -c 1-60)"; } >"$db"
heard=$(POLYCONV_LOG=warning "$bench" explain $token 2>&1)
says "$heard" "2 lines are torn or foreign and were skipped"
says "$heard" "here on"
says "$("$bench" explain fwd:n1,c4,k4,i10x10,f3x3)" "here on"

# A newer version's file and one that is none are left alone, with a sentence.
for first in '# polyconv tuning 2' 'dear diary'; do
  use alone
  printf '%s\nwhatever\n' "$first" >"$db"
  cp "$db" "$folder/untouched"
  code=0
  heard=$(POLYCONV_LOG=warning "$bench" tune --tune 0.05 $token 2>&1) || code=$?
  [[ $code == 2 ]] || fail "a tuner whose file is left alone exits with $code"
  says "$heard" "left alone"
  cmp -s "$db" "$folder/untouched" || fail "a file that begins '$first' was written over"
done

# A file larger than any of ours, of no bytes on the disk, is told and costs no plan.
use sparse
truncate -s 300M "$db"
heard=$(POLYCONV_LOG=warning "$bench" explain $token 2>&1)
says "$heard" "tuning file '$db' could not be read: it has more than 256 MiB"
says "$heard" "$token on cpu"
rm "$db"

# What killed writers left is removed, and nothing else whose name begins so.
use left
touch "$db.tmp123.4" "$db.tmp" "$db.tmp123.4.mine"
tune $token
[[ ! -e $db.tmp123.4 ]] || fail "what a writer left is still there"
[[ -e $db.tmp && -e $db.tmp123.4.mine ]] || fail "files of somebody else's were removed"

# A home that cannot be written: it works, and says so once. (Below a file, since root may write everywhere else.)
code=0
heard=$(HOME=$folder/before POLYCONV_TUNING_DB= "$bench" tune --tune 0.05 $token fwd:n1,c4,k4,i10x10,f3x3 2>&1) || code=$?
[[ $code == 2 ]] || fail "a tuner whose times are lost exits with $code"
[[ $(grep -c 'could not be kept' <<<"$heard") == 1 ]] || fail "expected one sentence: $heard"
[[ $(grep -c ' us  ' <<<"$heard") == 2 ]] || fail "expected two results: $heard"
heard=$(HOME=$folder/before POLYCONV_TUNING_DB= POLYCONV_LOG=warning "$bench" explain --tune 0.05 $token fwd:n1,c4,k4,i10x10,f3x3 2>&1)
[[ $(grep -c 'will be forgotten' <<<"$heard") == 1 ]] || fail "expected one warning: $heard"

# Where no file may be written at all, that is said too.
for nowhere in HOME= POLYCONV_TUNING_DB=beside.txt; do
  code=0
  heard=$(env -u HOME POLYCONV_TUNING_DB= $nowhere "$bench" tune --tune 0.05 $token 2>&1) || code=$?
  [[ $code == 2 ]] || fail "a tuner with $nowhere exits with $code"
  says "$heard" "could not be kept: no file of the tuning database may be written"
done

# A disk that is full: one sentence and an exit code, and the file has what it had.
use full
cp "$folder/before" "$db"
code=0
heard=$(trap '' XFSZ && ulimit -f 0 && "$bench" tune --tune 0.05 fwd:n1,c4,k4,i10x10,f3x3 2>&1) || code=$?
[[ $code == 2 ]] || fail "a tuner on a full disk exits with $code"
[[ $(grep -c "'$db' could not be written: " <<<"$heard") == 1 ]] || fail "expected one sentence: $heard"
cmp -s "$db" "$folder/before" || fail "a full disk changed the file"
code=0
heard=$(trap '' XFSZ && ulimit -f 0 && "$bench" tune --merge "$folder/own.txt" 2>&1) || code=$?
[[ $code == 2 ]] || fail "merging on a full disk exits with $code"
says "$heard" "'$db' could not be written: "
cmp -s "$db" "$folder/before" || fail "a full disk changed the file"
[[ -z $(find "$folder" -name 'full.txt.tmp*') ]] || fail "a full disk kept a piece of a file"

# Ctrl-C: the program says what is done, with an exit code of its own; what was timed is kept and the same command goes on.
use interrupted
problems=()
for c in {1..400}; do problems+=("fwd:n1,c$c,k5,i10x10,f3x3"); done
"$bench" tune --tune 0.05 "${problems[@]}" >"$folder/first" 2>"$folder/error" &
tuner=$!
until [[ -s $folder/first ]]; do sleep 0.01; done
kill -INT $tuner
code=0
wait $tuner || code=$?
[[ $code == 130 ]] || fail "an interrupted tuner exits with $code"
says "$(cat "$folder/error")" "interrupted behind"
whole "$db"
(($(tokens_in "$db") >= $(wc -l <"$folder/first"))) || fail "what was told to be done is not kept"
(($(tokens_in "$db") < 400)) || fail "an interrupted tuner did everything"

# A budget for all: what finds no time left is not begun, and the command says so.
use budget
heard=$("$bench" tune --budget 0.02 "${problems[@]}" 2>&1)
says "$heard" "the budget is spent"

# A network by its suite; files merged into the user's.
use network
"$bench" tune --network "$folder/small.txt" --tune 0.02 2>"$folder/error" && fail "a missing suite was taken"
printf 'fwd:n1,c6,k6,i10x10,f3x3\nfwd:n1,c7,k6,i10x10,f3x3\n' >"$folder/small.txt"
tune --network "$folder/small.txt"
[[ $(tokens_in "$db") == 2 ]] || fail "$(tokens_in "$db") of a network's 2 layers are in the file"
says "$("$bench" tune --merge "$folder/own.txt" "$folder/interrupted.txt")" "lines taken from $folder/own.txt"
whole "$db"
[[ $(tokens_in "$db") == $((3 + $(tokens_in "$folder/interrupted.txt"))) ]] || fail "merged files are not there"
if "$bench" tune --merge "$folder/before" /dev/null/none 2>"$folder/error"; then fail "a missing file was merged"; fi
says "$(cat "$folder/error")" "is not there"

# Killed fifty times at other moments, the file is always whole, and in the end everything is there. (Problems are new
# ones each time: the tuner is in the middle of them.)
use killed
died=0
for round in {1..50}; do
  problems=()
  for c in {1..40}; do problems+=("fwd:n1,c$c,k$round,i10x10,f3x3"); done
  "$bench" tune --tune 0.05 "${problems[@]}" >>"$folder/log" 2>&1 &
  victim=$!
  sleep "$(printf '0.%03d' $((round * 3)))"
  if kill -9 $victim 2>>"$folder/log"; then died=$((died + 1)); fi
  { wait $victim; } 2>>"$folder/log" || true
  [[ ! -e $db ]] || whole "$db"
done
before=$(tokens_in "$db")
tune "${problems[@]}"
whole "$db"
[[ $(grep -c ',k50,' < <(cut -f 1 "$db" | sort -u)) == 40 ]] || fail "not all of the last 40 problems are in the file"
(($(tokens_in "$db") >= before)) || fail "the file lost problems"
[[ -z $(find "$folder" -name 'killed.txt.tmp*') ]] || fail "killed writers left files behind"

# Eight tuners at once: everybody's results are there.
use together
for tuner in {1..8}; do
  for c in {1..4}; do echo "fwd:n1,c$((tuner * 4 + c)),k8,i10x10,f3x3"; done |
    xargs "$bench" tune --tune 0.02 >>"$folder/log" 2>&1 &
done
wait
whole "$db"
[[ $(tokens_in "$db") == 32 ]] || fail "$(tokens_in "$db") of 32 problems are in the file"
echo "the tuning database holds: $died of 50 tuners were killed before they were done, with $before problems kept"
