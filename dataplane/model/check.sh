#!/usr/bin/env bash
# Checks the models of the reclamation protocol and of clears with spin: the whole protocol
# exhaustively, in every configuration below; then without each of its guards, where a reader must be
# given wrong bytes, or a page that was cleared.
#
#   check.sh            all, JOBS (default 2) at a time
#   check.sh NAME       only this one; of what gives wrong bytes also the shortest history
#
# A search depends on nothing but the models, this file, spin and gcc. So all verdicts are kept under the
# digest of these in $PEERCACHE_CACHE, and shown again. FULL=1 searches all the same.
#
# Prints a line for each run. Fails unless every search was complete and every verdict is the one
# that is due. Memory: at most 1.8 GB a run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
model=$here/reclaim.pml
jobs=${JOBS:-2}
only=${1:-}
FULL=${FULL:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Bounds: hosts of shards, lives of a shard, lives of the owner, messages under way, epochs, and
# whether readers read memory (1), also that of shards (2), or ask the holder (0). Then words: split,
# reads take time; local, who asks is on the holder's machine; file, the owner's memory outlives its
# process; back, incarnations go back; stops=, whose clocks may stand still (1 readers', 2 shards',
# 4 owners', added); headers, by which READs count then.
#
# The whole protocol, in configurations that each have room for other histories:
declare -A whole=(
  [messages]="1 1 1 2 3 1" # that overtake each other, over several epochs
  [ghost]="1 2 1 1 3 1"    # a shard restarts, its former process lives on
  [overlap]="1 2 1 2 2 1"  # and messages overtake each other
  [restart]="1 1 2 2 2 1"  # the owner restarts
  [both]="1 2 2 1 2 1"
  [ring]="2 1 1 1 2 1"     # two shards, wanted and not
  [buckets]="1 1 1 1 3 2 split"       # one-sided lookups; reads take time
  [crossing]="1 1 1 2 2 2"            # and messages overtake each other
  [former]="1 2 1 1 2 2 split stops=4" # also in a former process of the shard; owners stand still
  [again]="1 1 2 1 2 2 split stops=4" # the owner restarts
  [request]="1 2 2 1 2 0 local back stops=6" # reads by request; owners and shards stand still
  [later]="1 1 2 1 2 0 local stops=6" # and incarnations do not go back
  [remote]="1 2 1 1 2 0 stops=7"      # from another machine; everybody stands still
  [adopted]="1 1 3 1 2 0 local file"  # the owner's memory outlives two of its processes
  [stopped_reader]="1 1 1 1 2 1 split stops=1 headers"
  [stopped_shard]="1 1 1 1 2 1 split stops=2 headers"
  [stopped]="1 1 1 1 2 2 split stops=7 headers" # everybody stands still; one-sided lookups, too
)
order=(overlap messages restart ring both ghost crossing request former again adopted buckets stopped
  later remote stopped_reader stopped_shard)

# What the absence of a guard needs to show, if it is more than this:
small="1 1 1 1 2 1"
declare -A needs=(
  [same_life]="1 1 2 1 2 1"
  [read_in_time]="1 1 1 1 2 0 local"
  [check_slot]="1 1 1 1 2 0"
  [raise_on_restart]="1 2 1 1 2 1"
  [former_life]="1 2 2 1 2 1"
  [settle_publish]="1 1 1 2 2 1"
  [keep_note_in_flight]="1 1 1 2 2 1"
  [keep_note_till_silent]="1 2 1 1 2 1"
  [own_stamps]="1 2 1 1 2 1"
  [drop_copies]="1 1 1 2 2 1"
  [refuse_lower]="1 1 1 2 3 1"
  [void_lower]="1 1 1 1 3 1"
  [check_grant]="1 1 1 1 2 2"
  [grant_from_ask]="1 1 1 1 2 2"
  [same_era]="1 1 1 1 3 2"
  [rewrite_first]="1 1 1 1 2 2"
  [time_last]="1 1 1 1 2 1 split"
  [new_name]="1 1 2 2 2 1 back"
  [header_last]="${whole[stopped_reader]}"
  [void_first]="${whole[stopped_reader]}"
  [pin_till_acked]="1 1 1 1 2 0 stops=1"
  [served_directly]="1 1 1 1 2 0 local"
  [served_by_grant]="1 1 1 1 2 2"
  [rest_adopted]="1 1 2 1 2 0 local file"
  [rest_longest]="1 1 2 1 2 0 local file"
  [rest_kept]="1 1 3 1 2 0 local file"
)
# What it shows there as well.
declare -A also=(
  [header_last]=stopped_shard
  [void_first]=stopped_shard
)

guards() { sed -nE 's/^#define ([a-z_]+) +[0-9]+ +\/\*.*/\1/p' "${1:-$model}"; }

# compile GUARD BOUNDS DIR: the checker; GUARD 0: the whole protocol
compile() {
  local -a b
  local word split=0 near=0 file=0 back=0 stops=0 headers=0
  read -ra b <<<"$2"
  for word in "${b[@]:6}"; do
    case $word in
      split) split=1 ;;
      local) near=1 ;;
      file) file=1 ;;
      back) back=1 ;;
      headers) headers=1 ;;
      stops=*) stops=${word#stops=} ;;
      *) echo "$word in bounds \"$2\" is no word that check.sh knows" && return 1 ;;
    esac
  done
  mkdir -p "$3"
  (
    cd "$3"
    cp "$model" . # spin looks for the history beside it
    spin -DWITHOUT="$1" -DHOSTS="${b[0]}" -DSHARD_LIVES="${b[1]}" -DLIVES="${b[2]}" \
      -DMSGS="${b[3]}" -DEPOCHS="${b[4]}" -DONE_SIDED="${b[5]}" \
      -DSPLIT=$split -DLOCAL=$near -DFILE=$file -DBACK=$back -DSTOPS="$stops" -DHEADERS=$headers -a reclaim.pml
    # A whole search is worth an optimizer, the short ones are not. NOREDUCE: all steps touch what is
    # shared, so there is nothing to reduce. No COLLAPSE: of states this small it saves no memory, and
    # is half of the time. REACH: for the shortest history.
    local -a flags=(-O1)
    if [[ $1 != 0 ]]; then flags=(-O0); fi
    if [[ $1 != 0 && -n $only ]]; then flags+=(-DREACH); fi
    gcc "${flags[@]}" -w -DSAFETY -DNOREDUCE -DMEMLIM=1800 -o pan pan.c
  )
}

# check_clears NAME GUARD MODEL: the same of clears.pml and drives.pml
check_clears() {
  local name=$1 guard=$2 of=$3 dir=$work/$1 start=$SECONDS verdict=wrong states errors optimize
  mkdir -p "$dir"
  if ! (
    cd "$dir"
    cp "$here/$of.pml" .
    spin -DWITHOUT="$guard" -a "$of.pml"
    optimize=-O1
    if [[ $guard != 0 ]]; then optimize=-O0; fi
    gcc $optimize -w -DSAFETY -DNOREDUCE -DMEMLIM=1800 -o pan pan.c
  ) >"$dir.log" 2>&1; then
    cat "$dir.log"
    return 1
  fi
  (cd "$dir" && ./pan -m100000) >"$dir/out" 2>&1 || true
  states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$dir/out")
  errors=$(sed -nE 's/.*errors: ([0-9]+).*/\1/p' "$dir/out")
  if [[ $guard != 0 ]]; then
    if [[ $errors == 1 ]] && grep -q 'assertion violated' "$dir/out"; then
      verdict="counterexample found"
    fi
  elif [[ $errors == 0 && ${states%.*} -gt 1000 ]] &&
    ! grep -qE 'max search depth too small|not completed|memory limit|memory exceeded|error:' "$dir/out"; then
    verdict="no cleared page, search complete"
  fi
  printf '%-30s %9s states %4d s  %s\n' "$name" "${states:-0}" $((SECONDS - start)) "$verdict"
  if [[ $verdict == wrong ]]; then
    cat "$dir/out"
    return 1
  fi
  rm -rf "$dir"
}

# The steps of the shortest counterexample, as lines of the model.
history_of() {
  ./pan -i -m2000000 >/dev/null 2>&1 || true
  ./pan -r 2>/dev/null |
    sed -nE '/assertion violated/q; s/^.*proc .*\(([A-Za-z]+)\).*\[D_STEP([0-9]+)\]$/\1 \2/p' |
    while read -r process line; do
      printf '%-7s %3d  %s\n' "$process" "$line" "$(sed -nE "${line}s/^ *:: (d_step )?//p" reclaim.pml)"
    done
  echo "the reader was given wrong bytes"
}

# check NAME GUARD BOUNDS: one run and its line; fails when the verdict is not the one that is due
check() {
  local name=$1 guard=$2 dir=$work/$1 start=$SECONDS verdict=wrong states errors
  if ! compile "$guard" "$3" "$dir" >"$dir.log" 2>&1; then
    cat "$dir.log"
    return 1
  fi
  (cd "$dir" && ./pan -m2000000) >"$dir/out" 2>&1 || true
  states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$dir/out")
  errors=$(sed -nE 's/.*errors: ([0-9]+).*/\1/p' "$dir/out")
  if [[ $guard != 0 ]]; then
    if [[ $errors == 1 ]] && grep -qE 'assertion violated .*(r_life==life|!\(wrong\))' "$dir/out"; then
      verdict="counterexample found"
    fi
  elif [[ $errors == 0 && ${states%.*} -gt 1000 ]] &&
    ! grep -qE 'max search depth too small|not completed|memory limit|memory exceeded|error:' "$dir/out"; then
    verdict="no wrong bytes, search complete"
  fi
  printf '%-30s %9s states %4d s  %s\n' "$name" "${states:-0}" $((SECONDS - start)) "$verdict"
  if [[ $verdict == wrong ]]; then
    cat "$dir/out"
    return 1
  fi
  if [[ $guard != 0 && -n $only ]]; then (cd "$dir" && history_of); fi
  rm -rf "$dir"
}

started=$SECONDS
"$here/check_names.sh"
kept=${PEERCACHE_CACHE:-${HOME:-/root}/.cache/peercache}/model/$({
  spin -V
  gcc --version
  cat "$here"/*.pml "$here/check.sh"
} | sha256sum | cut -c1-16)
if [[ -z $only$FULL && -e $kept ]]; then
  cat "$kept"
  echo "model: these verdicts are from $(date -r "$kept" -I), of the same models and tools"
  exit
fi
runs=()
for name in "${order[@]}"; do
  if [[ -z $only || $only == "$name" ]]; then runs+=("$name 0 ${whole[$name]}"); fi
done
for guard in $(guards); do
  if [[ -n $only && $only != "$guard" ]]; then continue; fi
  runs+=("without-$guard $guard ${needs[$guard]:-$small}")
  other=${also[$guard]:-}
  if [[ -n $other ]]; then runs+=("$other-without-$guard $guard ${whole[$other]}"); fi
done
for of in clears drives; do
  if [[ -z $only || $only == "$of" ]]; then runs+=("$of 0 $of"); fi
  for guard in $(guards "$here/$of.pml"); do
    if [[ -z $only || $only == "$guard" ]]; then runs+=("$of-without-$guard $guard $of"); fi
  done
done
if ((${#runs[@]} == 0)); then
  echo "$only is no configuration (${order[*]} clears drives) or guard" >&2
  exit 1
fi

verdicts() {
  local run name guard bounds failed=0
  for run in "${runs[@]}"; do
    while (($(jobs -pr | wc -l) >= jobs)); do
      wait -n || failed=1
    done
    read -r name guard bounds <<<"$run"
    if [[ $bounds == clears || $bounds == drives ]]; then
      check_clears "$name" "$guard" "$bounds" &
    else
      check "$name" "$guard" "$bounds" &
    fi
  done
  while (($(jobs -p | wc -l) > 0)); do
    wait -n || failed=1
  done
  if ((failed)); then
    echo "model: FAILED" >&2
    return 1
  fi
  echo "model: ${#runs[@]} verdicts as they should be, $((SECONDS - started)) s"
}

verdicts | tee "$work/verdicts"
if [[ -z $only ]]; then
  mkdir -p "$(dirname "$kept")"
  mv "$work/verdicts" "$kept"
fi
