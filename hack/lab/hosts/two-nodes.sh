#!/usr/bin/env bash
# Two nodes and their engines under an emulator, in a network namespace of their own.
#
#   unshare --net hack/lab/hosts/two-nodes.sh EMULATOR BUILD
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../lib.sh"
emulator=$1 build=$2
PAGES=64
SHAPE=(--page-bytes 100000 --pages "$PAGES" --batch 16 --window "$PAGES" --threads 2 --seconds 0 --warmup 0 --huge-pages off)

work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
ip link set lo up

node() { "$emulator" "$build/peercached" "$@"; }
engine() { "$emulator" "$build/bench/peercache-perf" "$@"; }

for n in 1 2; do
  node --node-id=n$n --bind-addr=127.0.0.$n --advertise-addr=127.0.0.$n --discovery-addr=127.0.0.1:31998 \
    --socket="$work/$n.sock" --pool-size=64Mi --huge-pages=off --map-pools=off --transport=tcp >"$work/$n.log" 2>&1 &
  pids+=($!)
done
members() { [ "$(node status --bind-addr="127.0.0.$1" | jq '.members | length')" = 2 ]; }
for n in 1 2; do wait_for 60 "node n$n knows both" members $n || { cat "$work"/*.log >&2; exit 1; }; done

# expect FIELD VALUE REPORT
expect() { [ "$(jq ".$1" <<<"$3")" = "$2" ] || die "$1 is not $2: $3" "see what the nodes say: $(tail -n 5 "$work"/*.log)"; }
for from in 1 2; do
  to=$((3 - from))
  engine set --socket "$work/$from.sock" --first-key $((from * 1000)) "${SHAPE[@]}" >/dev/null
  got=$(engine get --socket "$work/$to.sock" --first-key $((from * 1000)) --check "${SHAPE[@]}")
  expect hits $PAGES "$got"
  expect wrong 0 "$got"
  note "n$to has read $PAGES pages of n$from, each byte right"
done
