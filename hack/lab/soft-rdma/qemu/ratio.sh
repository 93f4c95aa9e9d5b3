#!/usr/bin/env bash
# What READs of a contender cost in instructions, beside ib_read_bw's of the same size, depth and number of queue pairs.
#
#   hack/lab/soft-rdma/qemu/ratio.sh peercache          our READs
#   hack/lab/soft-rdma/qemu/ratio.sh peercache-get      whole GETs of an engine
#   hack/lab/soft-rdma/qemu/ratio.sh                    ib_read_bw itself, which checks the method: it has to give 1
#   hack/lab/soft-rdma/qemu/ratio.sh --wall CONTENDER   by the host's clock, in the quick lane's guest: shown, held to nothing
#
# In a guest whose clock advances by 2 ns with each instruction, time is a count of instructions: the kernel's and the
# program's, of both ends. The ratio of two such times is the same on any machine and under any load. It is a ratio of
# instruction costs in virtual time, and no bandwidth: memory, caches and wires cost nothing there.
#
# Contenders are the files of contenders/. A ratio below 0.97 for peercache (RATIO_LEAST_READS), below 0.94 for peercache-get
# (RATIO_LEAST_GETS), and in the check of the method off 1 by more than 0.03, fails. RATIO_CASES (SIZE:DEPTH:QPS...) and
# RATIO_ROUNDS change what is measured. Writes dataplane/build/soft-rdma/ratio-CONTENDER/ratio.json.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../../lib.sh"
need jq

clock=virtual
if [ "${1:-}" = --wall ]; then clock=wall && shift; fi
contender=${1:-ib_read_bw}
cases=${RATIO_CASES:-131072:32:1 1048576:32:1}
case $clock in
  virtual)
    what="instruction cost of ib_read_bw / of $contender, in virtual time (no bandwidth)"
    guest=("$HERE/run.sh" --icount) rounds=${RATIO_ROUNDS:-5} folder=ratio-$contender
    ;;
  wall)
    what="speed of $contender / of ib_read_bw by the clock of a user-mode guest (no hardware)"
    guest=("$HERE/../run.sh") rounds=${RATIO_ROUNDS:-9} folder=wall-$contender
    ;;
esac
[ -r "$HERE/contenders/$contender.sh" ] || die "there is no contender '$contender'" \
  "one of: $(cd "$HERE/contenders" && echo *.sh | sed 's/\.sh//g')"
WORK=$PEERCACHE_ROOT/dataplane/build/soft-rdma/$folder
rm -rf "$WORK"
mkdir -p "$WORK"
cd "$PEERCACHE_ROOT"
# A run of lanes gives it what the others leave of the processors.
"${guest[@]}" --time 1800 --work "$WORK" bash -euo pipefail hack/lab/soft-rdma/qemu/guest/ratio.sh \
  "$contender" "$rounds" "$cases" | sed 's/^/    /' >&2

jq -Rn --arg contender "$contender" --arg what "$what" '
  def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
  def rounded: . * 10000 | round / 10000;
  [inputs | split(" ") | map(tonumber) | {size: .[0], depth: .[1], queue_pairs: .[2], reference: .[3], contender: .[4]}]
  | group_by([.size, .depth, .queue_pairs])
  | {what: $what, reference: "ib_read_bw", contender: $contender,
     cases: map((map(.contender / .reference)) as $ratios | {
       size: .[0].size, depth: .[0].depth, queue_pairs: .[0].queue_pairs, rounds: length,
       ratio: ($ratios | median | rounded), lowest: ($ratios | min | rounded), highest: ($ratios | max | rounded)})}
' "$WORK/rounds" >"$WORK/ratio.json"

printf '\n%s\n' "$what"
printf '%10s %6s %12s %7s %8s %8s %8s\n' bytes depth 'queue pairs' rounds ratio lowest highest
jq -r '.cases[] | [.size, .depth, .queue_pairs, .rounds, .ratio, .lowest, .highest] | @tsv' "$WORK/ratio.json" |
  while read -r row; do
    # shellcheck disable=SC2086  # its fields
    printf '%10s %6s %12s %7s %8s %8s %8s\n' $row
  done
[ $clock = virtual ] || exit 0
case $contender in
  ib_read_bw) bounds='0.97 1.03' ;;
  peercache-get) bounds="${RATIO_LEAST_GETS:-0.94} 1000" ;;
  *) bounds="${RATIO_LEAST_READS:-0.97} 1000" ;;
esac
outside=$(jq -r --arg bounds "$bounds" '($bounds | split(" ") | map(tonumber)) as $b
  | .cases[] | select(.ratio < $b[0] or .ratio > $b[1]) | "\(.size) bytes: \(.ratio)"' "$WORK/ratio.json")
[ -z "$outside" ] || die "ratio outside of ${bounds/ /..}: $outside" "$WORK/rounds has each measurement"
