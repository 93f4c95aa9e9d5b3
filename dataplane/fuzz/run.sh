#!/usr/bin/env bash
# Runs the fuzz targets of build/asan, some at a time, each for a while, from the corpus that is kept.
#
#   fuzz/run.sh [TARGET...]         all targets by default
#   FUZZ_SECONDS=60                 for each target; the whole takes about targets / jobs times that
#   FUZZ_JOBS=2                     at a time
#   FUZZ_SEED=0                     0: another each time; in CI 1, so that a change is not refused for what luck
#                                   finds in code that it has not touched
#
# Fails when an input breaks a target, and when its inputs never got to one of the places that they
# are for ("reached 0 ..."): a fuzzer that only meets refusals tests nothing. What failed is said
# again at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD=build/asan
SECONDS_EACH=${FUZZ_SECONDS:-60}
JOBS=${FUZZ_JOBS:-2}
SEED=${FUZZ_SEED:-${CI:+1}}
# On a slow, busy machine these take longer than SECONDS_EACH; what ends a target then is a hang.
MIN_INPUTS=$((SECONDS_EACH * 2))
HANG_SECONDS=$((SECONDS_EACH * 10 + 300))
ERRORS=$BUILD/log/errors.txt

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for path in "$BUILD"/fuzz/fuzz_*; do [ -x "$path" ] && targets+=("${path##*/fuzz_}"); done
fi
[ ${#targets[@]} -gt 0 ] || { echo "error: no targets in dataplane/$BUILD; run: make build-fuzz" >&2; exit 1; }

log_of() { echo "$BUILD/log/$1.txt"; }

inputs_of() { sed -nE 's/^stat::number_of_executed_units: *([0-9]+)/\1/p' "$(log_of "$1")"; }

# "63211 inputs, 812 edges, 301 kept" of a log so far.
progress() {
  sed -nE 's/^#([0-9]+).* cov: ([0-9]+) .* corp: ([0-9]+).*/\1 inputs, \2 edges, \3 kept/p' "$(log_of "$1")" | tail -1
}

start() {
  fuzz "$1" -max_total_time="$SECONDS_EACH" || return
  [ "$(inputs_of "$1")" -ge "$MIN_INPUTS" ] ||
    fuzz "$1" -runs="$MIN_INPUTS" -max_total_time="$HANG_SECONDS"
}

fuzz() {
  local name=$1 new=$BUILD/corpus/$1 found=$BUILD/found/$1 kept=()
  mkdir -p "$new" "$found"
  [ ! -d "fuzz/corpus/$name" ] || kept=("fuzz/corpus/$name")
  # New inputs go to the first folder, which is not part of the repository. The limits: a server that
  # takes a minute hangs; nothing that an input asks for may cost hundreds of megabytes.
  "$BUILD/fuzz/fuzz_$name" -seed="${SEED:-0}" "${@:2}" -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=256 \
    -max_len=8192 -print_final_stats=1 -artifact_prefix="$found/" "$new" "$BUILD/fuzz/seeds/$name" "${kept[@]}" \
    >"$(log_of "$name")" 2>&1
}

# Judges a target that has ended with status $2.
check() {
  local name=$1 status=$2 log inputs unreached input
  log=$(log_of "$name")
  if [ "$status" != 0 ]; then
    input=$(sed -nE 's/.*Test unit written to (.*)/\1/p' "$log" | tail -1)
    { grep -E -m 6 'property does not hold|ERROR:|SUMMARY:|runtime error|terminate called|what\(\)' "$log" || tail -5 "$log"; } >&2
    echo "error: fuzz_$name failed (status $status). Its log: dataplane/$log" >&2
    if [ -n "$input" ]; then
      echo "  input:     dataplane/$input" >&2
      echo "  replay:    (cd dataplane && $BUILD/fuzz/fuzz_$name $input)" >&2
      echo "  then fix it, with a unit test, and keep the input as dataplane/fuzz/corpus/$name/regress-WHAT" >&2
    fi
    return 1
  fi
  inputs=$(inputs_of "$name")
  if [ "${inputs:-0}" -lt "$MIN_INPUTS" ]; then
    echo "error: fuzz_$name ran ${inputs:-0} inputs in $HANG_SECONDS s, fewer than $MIN_INPUTS; see dataplane/$log" >&2
    return 1
  fi
  unreached=$(sed -nE 's/^reached 0 (.*)/\1/p' "$log" | paste -sd, | sed 's/,/, /g')
  if [ -n "$unreached" ]; then
    echo "error: no input of fuzz_$name got to: $unreached. Add a seed to fuzz/make_corpus.cc" >&2
    return 1
  fi
  printf '    %-14s %d inputs,%s\n' "$name" "$inputs" "$(progress "$name" | cut -d, -f2-)"
}

declare -A running=()   # pid -> target
queue=("${targets[@]}")
failed=0
mkdir -p "$BUILD/log"
: >"$ERRORS"
started=$SECONDS
said=$SECONDS
while [ ${#queue[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
  while [ ${#queue[@]} -gt 0 ] && [ ${#running[@]} -lt "$JOBS" ]; do
    start "${queue[0]}" &
    running[$!]=${queue[0]}
    queue=("${queue[@]:1}")
  done
  sleep 1
  for pid in "${!running[@]}"; do
    kill -0 "$pid" 2>/dev/null && continue
    status=0
    wait "$pid" || status=$?
    check "${running[$pid]}" "$status" 2> >(tee -a "$ERRORS" >&2) || failed=1
    unset "running[$pid]"
  done
  if [ $((SECONDS - said)) -ge 20 ]; then
    said=$SECONDS
    for pid in "${!running[@]}"; do
      echo "    ... ${running[$pid]}: $(progress "${running[$pid]}"), $((SECONDS - started)) s, ${#queue[@]} targets to come"
    done
  fi
done
[ "$failed" = 0 ] || { cat "$ERRORS" >&2; exit 1; }
echo "==> ${#targets[@]} fuzz targets, $SECONDS_EACH s each: nothing found in $((SECONDS - started)) s"
