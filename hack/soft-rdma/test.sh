#!/usr/bin/env bash
# Runs the tests over soft-RoCE: the quick ones, or those that take QEMU.
#
#   hack/soft-rdma/test.sh                    all of tests/*.sh, each in a guest of its own
#   hack/soft-rdma/test.sh --full             all of qemu/tests/*.sh, which start their guests themselves
#   hack/soft-rdma/test.sh [--full] NAME...   those whose file name contains one of the names
#
# A test is a script that bash runs with -euo pipefail at the root of the tree. run.sh says what it finds in a guest,
# fabric.sh makes devices there. It passes when it ends with status 0 in the time that its line "# Longest: N s" allows.
# Its output and what it leaves in $WORK lie in dataplane/build/soft-rdma/NAME.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../lib.sh"

OUT=$PEERCACHE_ROOT/dataplane/build/soft-rdma
SHOWN=40  # lines of a failed test's output

folder=hack/soft-rdma/tests prepare=$HERE/kernel/build.sh mode=()
if [ "${1:-}" = --full ]; then
  folder=hack/soft-rdma/qemu/tests prepare=$HERE/qemu/kernel.sh mode=(--full)
  shift
fi
cd "$PEERCACHE_ROOT"
tests=()
for file in "$folder"/*.sh; do
  name=$(basename "$file" .sh)
  wanted=$([ $# -gt 0 ] || echo yes)
  for part in "$@"; do case $name in *"$part"*) wanted=yes ;; esac; done
  [ -z "$wanted" ] || tests+=("$name")
done
[ ${#tests[@]} -gt 0 ] || die "no test's name contains: $*" "ls $folder"

run() {  # run NAME SECONDS
  if [ ${#mode[@]} -gt 0 ]; then
    WORK=$OUT/$1 timeout -k 5 "$2" bash -euo pipefail "$folder/$1.sh"
  else
    "$HERE/run.sh" --time "$2" --work "$OUT/$1" bash -euo pipefail "$folder/$1.sh"
  fi
}

need_root
"$prepare" >/dev/null
failed=()
started=$SECONDS
for name in "${tests[@]}"; do
  limit=$(sed -n 's/^# Longest: \([0-9]*\) s.*/\1/p' "$folder/$name.sh")
  [ -n "$limit" ] || die "$folder/$name.sh has no line '# Longest: N s'" "say how long it may take"
  rm -rf "${OUT:?}/$name"
  mkdir -p "$OUT/$name"
  at=$SECONDS
  if run "$name" "$limit" >"$OUT/$name/output" 2>&1; then
    note "$(printf 'PASS %4d s  %s' $((SECONDS - at)) "$name")"
  else
    status=$?
    note "$(printf 'FAIL %4d s  %s (status %d)' $((SECONDS - at)) "$name" "$status")"
    tail -n "$SHOWN" "$OUT/$name/output" | sed 's/^/      /' >&2
    note "all of it: $OUT/$name"
    failed+=("$name")
  fi
done
[ ${#failed[@]} -eq 0 ] || die "${#failed[@]} of ${#tests[@]} tests failed: ${failed[*]}" \
  "hack/soft-rdma/test.sh ${mode[*]} ${failed[0]} repeats one"
note "all ${#tests[@]} tests passed in $((SECONDS - started)) s"
