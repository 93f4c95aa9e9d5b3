#!/usr/bin/env bash
# Runs what dataplane/build/arm64 has under qemu-user: the unit tests but for those of emulated.txt, and two nodes that serve each other
# pages. arm64.sh calls it in its root.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"

BUILD=$PEERCACHE_ROOT/dataplane/build/arm64
EMULATOR=qemu-aarch64-static
need $EMULATOR ctest ip

# Sets EXCLUDED to a pattern of the tests that cannot run, and says which they are, and why.
choose_tests() {
  local all pattern reason found patterns=() count=0
  all=$(ctest --test-dir "$BUILD" -N | sed -n 's/^ *Test *#[0-9]*: //p')
  while read -r pattern reason; do
    found=$(grep -xE -- "$pattern" <<<"$all") ||
      die "hack/lab/hosts/emulated.txt: no test is called '$pattern'" "remove the line, or write what the test is called now"
    note "NOT RUN: $(paste -sd' ' <<<"$found"): $reason"
    count=$((count + $(wc -l <<<"$found")))
    patterns+=("$pattern")
  done < <(grep -v '^#' "$HERE/emulated.txt")
  note "NOT RUN under the emulator: $count of $(wc -l <<<"$all") tests"
  EXCLUDED="^($(IFS='|'; echo "${patterns[*]}"))$"
}

step "C++ unit tests, arm64"
choose_tests
# Waits count in real time, which an emulator has less of: a test that fails is tried once more.
ctest --test-dir "$BUILD" -j "$(nproc)" --no-tests=error --output-on-failure --repeat until-pass:2 -E "$EXCLUDED"

step "two nodes, arm64: each engine reads what the other one has set"
exec unshare --net "$HERE/two-nodes.sh" "$EMULATOR" "$BUILD"
