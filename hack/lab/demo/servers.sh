# shellcheck shell=bash
# Whole engines in the demo: two servers on a CPU, with a tiny model, asked over HTTP. Sourced by the files of engines, which
# set ENGINE_CONTAINER, the path ASKED, and what jq finds in an answer: its ALL_TOKENS, CACHED_TOKENS and what is COMPUTED. Their
# `request TOKENS` prints what to ask.
#
# The servers' packages are 7 GB: pods mount them from this machine, which the nodes of the local provider see.

TOKENS=600
# shellcheck disable=SC2034  # demo.sh reads it
ENGINE_JOB="a prompt of $TOKENS tokens, computed on one node and found on another"

prepare_engine() {
  # shellcheck disable=SC2153  # demo.sh sets ENGINE
  [ "$PROVIDER" = local ] ||
    die "the packages of $ENGINE_NAME are not in an image that kind could load" "PROVIDER=local ENGINE=$ENGINE make demo"
  ENGINES=$("$HERE/engines/install.sh")
  made_once "$ENGINES/model" make_model
}

make_model() {
  "$ENGINES/venv/bin/python" "$HERE/engines/model.py" llama "$1" 1
  chmod -R a+rX "$1"  # the pods' user is not this one
}

# The newest release of an engine that its tests run.
newest_release() { sed -n "s/^$1==\([^ ]*\) .*/\1/p" "$HERE/engines/releases.txt" | tail -1; }

ask() {  # ask POD SEED: the engine's answer to a prompt
  jq -nc --argjson seed "$2" --argjson tokens "$TOKENS" '[range($tokens) | 3 + (. * 7 + $seed * 131) % 1000]' | request |
    kubectl -n "$NAMESPACE" exec -i "$1" -c "$ENGINE_CONTAINER" -- /usr/bin/python3 -c 'import sys, urllib.request as r; print(r.urlopen(
      r.Request("http://127.0.0.1:8000" + sys.argv[1], sys.stdin.buffer.read(), {"Content-Type": "application/json"})).read().decode())' "$ASKED"
}

cached() { jq -r "$CACHED_TOKENS // 0" <<<"$1"; }

timed() {  # timed POD SEED: asks, shows, and sets ANSWER
  local began=$EPOCHREALTIME seconds
  ANSWER=$(ask "$1" "$2") || die "the request to $1 failed: $ANSWER" "kubectl -n $NAMESPACE logs $1"
  seconds=$(awk -v b="$began" -v e="$EPOCHREALTIME" 'BEGIN {printf "%.2f", e - b}')
  note "$1: $(jq -r "$ALL_TOKENS" <<<"$ANSWER") tokens, $(cached "$ANSWER") of them cached, $seconds s"
}

main_job() {
  local seed=$RANDOM first
  # The first request of a server is slow: not with the prompt that counts.
  ask writer $((seed + 1)) >/dev/null
  ask reader $((seed + 2)) >/dev/null
  timed writer "$seed"
  first=$ANSWER
  sleep 2  # the writer stores while it computes on
  timed reader "$seed"
  [ "$(cached "$ANSWER")" -gt 0 ] || die "the reader found none of the prompt's pages" "kubectl -n $NAMESPACE logs reader"
  [ "$(jq -c "$COMPUTED" <<<"$ANSWER")" = "$(jq -c "$COMPUTED" <<<"$first")" ] ||
    die "the answers differ" "kubectl -n $NAMESPACE logs reader"
  note "log-probabilities of both answers are equal"
}

# Each prompt tells once whether it is found: the reader has computed it then.
store_before() {
  SEED=$RANDOM
  local i
  for i in {1..20}; do ask writer $((SEED + i)) >/dev/null; done
  sleep 2
}

found_again() {
  local answer
  SEED=$((SEED + 1))
  answer=$(ask reader "$SEED") && [ "$(cached "$answer")" -gt 0 ] || return 1
  # shellcheck disable=SC2034
  FOUND="$(cached "$answer") of $TOKENS tokens of a prompt of before are cached on $READER"
}
