#!/usr/bin/env bash
# Runs a lane of the tests: lane.sh LANE
#
# Many tests wait for something with a deadline, which a virtual machine whose processors others use may miss. So in CI a
# lane that fails is run once more as a whole, and named as FLAKY when it passes then; what failed is a defect of the test
# or of the product all the same. What a sanitizer reports and wrong bytes fail at once, and so do the lanes that search
# for faults: what they find once is there.
set -euo pipefail
lane=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

try() {
  local at=$SECONDS status=0
  echo "=== lane $lane"
  make --no-print-directory "$lane" 2>&1 | tee "$log" || status=$?
  [ $status = 0 ] && echo "=== lane $lane passed in $((SECONDS - at)) s" || echo "=== lane $lane FAILED after $((SECONDS - at)) s"
  return $status
}

try && exit
[ -n "${CI:-}" ] || exit 1
case $lane in test-model | test-fuzz) exit 1 ;; esac
# pytest marks the line that failed with >; the rest is what the checks of engines and of the bench say.
if grep -qE '(Address|Leak|Thread)Sanitizer: |: runtime error: |^ *> .*wrong|[0-9] wrong words|WRONG BYTES' "$log"; then
  echo "error: not run again, for wrong bytes or a sanitizer's report: see above" >&2
  exit 1
fi
echo "=== lane $lane once more"
try
echo "FLAKY: lane $lane failed once and passed then, see above"
