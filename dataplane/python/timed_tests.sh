#!/usr/bin/env bash
# Runs tests whose bounds are wall-clock time: timed_tests.sh PYTEST-ARGUMENTS...
#
# On a virtual machine others can take the processors for a second, which looks like a stall of what is tested. So a few
# tests that fail are run once more, and named at the end as FLAKY, with the share of the processors that was taken. Where
# nothing was taken each is a defect, and fails at once; so do more than a few, and wrong bytes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
few=3
log=$(mktemp)
trap 'rm -f "$log"' EXIT

ticks() { awk '$1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; print all, $9 }' /proc/stat; }

read -r all_before stolen_before < <(ticks)
"$here/test.sh" "$@" | tee "$log" && exit
read -r all stolen < <(ticks)
mapfile -t failed < <(sed -nE 's/^(FAILED|ERROR) ([^[]*(\[[^]]*\])?).*/\2/p' "$log" | sed 's/ - .*//')
# pytest marks the line that failed.
if grep -qE '^> .*wrong' "$log"; then
  echo "error: wrong bytes, see above" >&2
  exit 1
fi
taken=$((100 * (stolen - stolen_before) / (all - all_before)))
if [ ${#failed[@]} = 0 ] || [ ${#failed[@]} -gt $few ] || [ $taken = 0 ]; then
  echo "error: ${#failed[@]} tests failed while others took $taken % of the processors, see above" >&2
  exit 1
fi
echo "==> once more, since others took $taken % of the processors: ${failed[*]}"
"$here/test.sh" --last-failed "$@"
echo "FLAKY: ${failed[*]} failed while others took $taken % of the processors, and passed then"
