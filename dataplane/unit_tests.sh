#!/usr/bin/env bash
# Runs the unit tests of a preset that is built: unit_tests.sh PRESET [JOBS]
#
# Many tests wait for something with a deadline, which a machine that others use too may miss. So a few
# that fail are run once more, by themselves, and named at the end as FLAKY; each is a defect of the test
# or of the product. More than a few are a failure at once, and so is whatever a sanitizer reports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

preset=$1
jobs=${2:-$(nproc)}
few=3
results=build/$preset/Testing/Temporary

rm -rf "$results"
ctest --preset "$preset" -j "$jobs" && exit
[ -s "$results/LastTestsFailed.log" ] || exit 1
mapfile -t failed < <(cut -d: -f2 "$results/LastTestsFailed.log")
if grep -qE 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' "$results/LastTest.log"; then
  echo "error: a sanitizer has found something, see above" >&2
  exit 1
fi
if [ ${#failed[@]} -gt $few ]; then
  echo "error: ${#failed[@]} tests failed" >&2
  exit 1
fi
cp "$results/LastTest.log" "build/$preset/first-try.log"
echo "==> once more, by themselves: ${failed[*]}"
ctest --preset "$preset" --rerun-failed -j 1
echo "FLAKY: ${failed[*]} failed beside other tests and passed alone; see dataplane/build/$preset/first-try.log"
