#!/usr/bin/env bash
# Runs lanes of the tests in order of cost: lanes.sh LANE... The first that fails ends the run.
#
# test-fuzz wants processors and waits for nothing, the lanes after it mostly wait: so it runs beside them, with less weight,
# and what it says comes at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
BESIDE=test-fuzz
log=$(mktemp) beside='' at=$SECONDS
trap 'rm -f "$log"; [ -z "$beside" ] || kill -- -"$beside" 2>/dev/null || true' EXIT

# The scheduler of many a machine weighs sessions, and only then the processes in one. A third of the others' weight is
# enough for each target to run its inputs, and leaves the others their deadlines.
begin_beside() {
  echo "=== lane $BESIDE begins, beside the next ones"
  setsid bash -c "{ echo 5 > /proc/self/autogroup; } 2>/dev/null; exec nice -n 5 hack/lane.sh $BESIDE" >"$log" 2>&1 </dev/null &
  beside=$!
}

for lane in "$@"; do
  if [ "$lane" = "$BESIDE" ]; then begin_beside; else hack/lane.sh "$lane"; fi
done
if [ -n "$beside" ]; then
  echo "=== waiting for lane $BESIDE"
  status=0
  wait "$beside" || status=$?
  beside=''
  cat "$log"
  [ $status = 0 ] || exit $status
fi
echo "=== all lanes passed in $((SECONDS - at)) s: $*"
