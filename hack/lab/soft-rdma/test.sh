#!/usr/bin/env bash
# Runs the tests over soft-RoCE: the quick ones, or the longer ones, most of which take QEMU.
#
#   hack/lab/soft-rdma/test.sh                    all of tests/*.sh, each in a guest of its own, JOBS at a time
#   hack/lab/soft-rdma/test.sh --full             all of qemu/tests/*.sh, which start their guests themselves
#   hack/lab/soft-rdma/test.sh [--full] NAME...   those whose file name contains one of the names
#   SHORT=1 hack/lab/soft-rdma/test.sh            without those that have a line "# At full length"
#
# A test is a script that bash runs with -euo pipefail at the root of the tree. run.sh says what it finds in a guest,
# fabric.sh makes devices there. It passes when it ends with status 0 in the time that its line "# Longest: N s" allows.
# Its output and what it leaves in $WORK lie in dataplane/build/soft-rdma/NAME.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"

OUT=$PEERCACHE_ROOT/dataplane/build/soft-rdma
SHOWN=30 SHOWN_END=15  # lines of a failed test's output: of what failed, which may be far above the end, and of the end
# A guest waits for half of its time, so two share a processor. Each stays on its own: a system call in a guest is a few
# switches between processes of the host, far cheaper there than across processors. More at once than that, and a guest
# that gets none of its processor for a second looks like a dead node to its peer.
mapfile -t processors < <(taskset -cp $$ | sed 's/.*: //; s/,/\n/g' |
  while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
jobs=${JOBS:-$((2 * ${#processors[@]} < 4 ? 2 * ${#processors[@]} : 4))}

folder=hack/lab/soft-rdma/tests prepare=$HERE/kernel/build.sh mode=()
if [ "${1:-}" = --full ]; then
  folder=hack/lab/soft-rdma/qemu/tests prepare=$HERE/qemu/kernel.sh mode=(--full) jobs=1
  shift
fi
cd "$PEERCACHE_ROOT"
tests=()
for file in "$folder"/*.sh; do
  [ -z "${SHORT:-}" ] || ! grep -q '^# At full length' "$file" || continue
  name=$(basename "$file" .sh)
  wanted=$([ $# -gt 0 ] || echo yes)
  for part in "$@"; do case $name in *"$part"*) wanted=yes ;; esac; done
  [ -z "$wanted" ] || tests+=("$name")
done
[ ${#tests[@]} -gt 0 ] || die "no test's name contains: $*" "ls $folder"

limit_of() { sed -n 's/^# Longest: \([0-9]*\) s.*/\1/p' "$folder/$1.sh"; }
for name in "${tests[@]}"; do
  [ -n "$(limit_of "$name")" ] || die "$folder/$name.sh has no line '# Longest: N s'" "say how long it may take"
done
# The longest first, so that none of them is left alone at the end.
mapfile -t tests < <(for name in "${tests[@]}"; do echo "$(limit_of "$name") $name"; done | sort -s -rn | cut -d ' ' -f 2)

run() {  # run NAME PROCESSOR: writes its status and its seconds into $OUT/NAME
  local name=$1 processor=$2 limit status=0 from=$SECONDS
  limit=$(limit_of "$name")
  if [ ${#mode[@]} -gt 0 ]; then
    WORK=$OUT/$name timeout -k 5 "$limit" bash -euo pipefail "$folder/$name.sh"
  else
    taskset -c "$processor" "$HERE/run.sh" --time "$limit" --work "$OUT/$name" bash -euo pipefail "$folder/$name.sh"
  fi >"$OUT/$name/output" 2>&1 || status=$?
  echo "$status $((SECONDS - from))" >"$OUT/$name/status"
}

report() {  # report NAME
  local status took
  read -r status took <"$OUT/$1/status"
  if [ "$status" = 0 ]; then
    note "$(printf 'PASS %4d s  %s' "$took" "$1")"
    return
  fi
  note "$(printf 'FAIL %4d s  %s (status %d)' "$took" "$1" "$status")"
  {
    grep -aE -A 5 ': Failure$|FAILED|rror: |-WRONG-BYTES: |Sanitizer' "$OUT/$1/output" | head -n "$SHOWN" || true
    echo '...'
    tail -n "$SHOWN_END" "$OUT/$1/output"
  } | cut -c 1-200 | sed 's/^/      /' >&2
  note "all of it: $OUT/$1"
  failed+=("$1")
}

need_root
"$prepare" >/dev/null
# It takes a second to find, each time.
[ ${#mode[@]} -gt 0 ] || { SOFT_RDMA_KERNEL=$("$prepare" --path) && export SOFT_RDMA_KERNEL; }
failed=()
declare -A running=() at=()  # process -> test, and its processor
free=()
for ((slot = 0; slot < jobs; slot++)); do free+=("${processors[slot % ${#processors[@]}]}"); done
trap '[ ${#running[@]} -eq 0 ] || kill "${!running[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
started=$SECONDS
for name in "${tests[@]}"; do
  rm -rf "${OUT:?}/$name"
  mkdir -p "$OUT/$name"
done
next=0
while [ "$next" -lt ${#tests[@]} ] || [ ${#running[@]} -gt 0 ]; do
  while [ "$next" -lt ${#tests[@]} ] && [ ${#free[@]} -gt 0 ]; do
    run "${tests[next]}" "${free[0]}" &
    running[$!]=${tests[next]} at[$!]=${free[0]}
    free=("${free[@]:1}") next=$((next + 1))
  done
  wait -n -p ended "${!running[@]}" || true
  report "${running[$ended]}"
  free+=("${at[$ended]}")
  unset "running[$ended]"
done
[ ${#failed[@]} -eq 0 ] || die "${#failed[@]} of ${#tests[@]} tests failed: ${failed[*]}" \
  "hack/lab/soft-rdma/test.sh ${mode[*]} ${failed[0]} repeats one"
note "all ${#tests[@]} tests passed in $((SECONDS - started)) s"
