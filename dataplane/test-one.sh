#!/usr/bin/env bash
# Builds the test binary of one folder of dataplane/src, and runs the folder's tests: `make test-cpp
# IN=pool` (or node/engine, transport/rdma/fake). ONLY='Suite.*' chooses among all of its binary.
set -euo pipefail
cd "$(dirname "$0")"
build=build/dev
in="${IN%/}"

mkdir -p build
exec 9>"$build.lock"
flock 9
[[ -f $build/build.ninja ]] || cmake --preset dev -DCMAKE_UNITY_BUILD=OFF >/dev/null
# The file may be older than a test that was added or moved since: globs are looked at first.
cmake --build $build --target build.ninja >/dev/null

# Lines FOLDER BINARY, from what is compiled into what.
binaries() {
  awk -F'"' '
    $2 == "command" { binary = $0; sub(/.* -o /, "", binary); sub(/\.dir\/.*/, "", binary) }
    $2 == "file" && $4 ~ /_test\.cc$/ && $4 !~ /_fabric_test\.cc$/ {
      room = $4; sub(/.*\/dataplane\/src\//, "", room); sub(/\/[^\/]*$/, "", room)
      sub(/CMakeFiles\//, "", binary)
      if (room !~ /^\//) print room, binary
    }' $build/compile_commands.json | sort -u
}

binary="$(binaries | awk -v "room=$in" '$1 == room { print $2; exit }')"
if [[ -z $binary ]]; then
  echo "IN=$IN is no folder of dataplane/src with tests. These are:" >&2
  binaries | awk '{ print "  " $1 }' >&2
  exit 1
fi
echo "==> $binary, of $in"
targets=("$(basename "$binary")")
# As node/integration/on_fake/CMakeLists.txt has it for ctest.
[[ $in != node/integration/on_fake ]] || export PEERCACHE_TEST_RAILS=fake0
# Tests of whole nodes start it.
[[ $in != node/integration* && $in != capi ]] || targets+=(peercached)
cmake --build $build -j "${JOBS:-$(nproc)}" --target "${targets[@]}"
flock -u 9

# Without ONLY: the suites that the folder's sources name, also with parameters or types.
filter="${ONLY:-$(sed -nE 's/^(TYPED_)?TEST(_[FP])?\((\w+),.*/\3.*:\3\/*:*\/\3.*/p' "src/$in"/*_test.cc |
  sort -u | paste -sd:)}"
if ! "$build/$binary" --gtest_list_tests --gtest_filter="$filter" | grep "^  " >/dev/null; then
  echo "no test of $binary is called $filter" >&2
  exit 1
fi

# More processes than processors, as in the other lanes: tests wait for a part of their time. By
# xargs, because what a shell starts with & ignores SIGINT, which tests send to their processes.
export GTEST_TOTAL_SHARDS=$((${JOBS:-$(nproc)} + 2))
logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT
failed=0
# shellcheck disable=SC2016  # sh expands them
seq 0 $((GTEST_TOTAL_SHARDS - 1)) | xargs -P "$GTEST_TOTAL_SHARDS" -I{} sh -c \
  'GTEST_SHARD_INDEX=$1 "$2" --gtest_brief=1 --gtest_filter="$3" >"$4/$1" 2>&1 ||
    { cat "$4/$1"; exit 1; }' \
  sh {} "$build/$binary" "$filter" "$logs" || failed=1
cat "$logs"/* | awk '/^\[==========\].* ran/ { ran += $2 } END { print "==> " ran " tests ran" }'
exit $failed
