#!/usr/bin/env bash
# Fuzzes injection: fuzz.sh [SECONDS]. Prints an input that breaks it, and leaves nothing behind.
#
# Inputs are chosen without knowing what they reach: to be told that, Go compiles all of Kubernetes' packages anew, which
# takes ten minutes. FuzzInject makes of any bytes a pod, so few are wasted. With it: go test -fuzz, as fuzz_test.go says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-30}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

go test -c -o "$out/inject.test" ./operator/inject
cd "$out"
status=0
./inject.test -test.run '^$' -test.fuzz '^FuzzInject$' -test.fuzztime "${seconds}s" -test.fuzzcachedir "$out/found" \
  -test.parallel "${FUZZ_JOBS:-2}" || status=$?
[ $status = 0 ] && exit
for input in testdata/fuzz/FuzzInject/*; do
  [ -f "$input" ] || continue
  echo "To see it again, write this to operator/inject/$input, and run go test ./operator/inject -run FuzzInject:"
  cat "$input"
done
exit $status
