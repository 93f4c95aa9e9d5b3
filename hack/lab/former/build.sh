#!/usr/bin/env bash
# Builds the data plane of a former commit, once, and prints the folder: peercached and python/_peercache.*.so.
# make test-faults runs nodes and engines of it beside those of this tree. Five minutes of two cores when cold.
#
# hack/lab/former/commit names the commit. Before the first release that is the last one before messages got
# what an older release neither sends nor reads (flags 32, 64, 128 and 256 of docs/dev/protocol.md, and Fetch),
# while nodes already prove a secret. Once a release is out, it is the oldest one of the present protocol
# version that docs/upgrade.md supports.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
need cmake git ninja

commit=$(<"$HERE/commit")
python=${PYTHON:-/usr/bin/python3}
read -r include soabi < <("$python" -c 'import sysconfig as s; print(s.get_path("include"), s.get_config_var("SOABI"))')
out=$PEERCACHE_CACHE/former/$commit-$soabi

build() {
  local made=$1 source pybind11
  git -C "$PEERCACHE_ROOT" cat-file -e "$commit^{commit}" 2>/dev/null ||
    die "commit $commit of hack/lab/former/commit is not in this clone" \
      "git fetch --depth=1 origin $commit (or git fetch --unshallow; fetch-depth: 0 of actions/checkout)"
  step "building the data plane of commit ${commit:0:12} (minutes when cold)"
  source=$(mktemp -d "$out.source.XXXXXX")
  # shellcheck disable=SC2064  # what it is now
  trap "rm -rf '$source' '$made'" EXIT
  git -C "$PEERCACHE_ROOT" archive "$commit" VERSION dataplane | tar -x -C "$source"
  export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
  pybind11=$("$PEERCACHE_ROOT/dataplane/python/pybind11.sh")
  # SKBUILD: as a source distribution, in which a newer compiler's warnings are no errors. Nobody measures it, so it is
  # optimized a little only, and has no debug information.
  (cd "$source/dataplane" &&
    cmake --preset release -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -DSKBUILD=ON -DSKBUILD_SCRIPTS_DIR=bin -DCMAKE_UNITY_BUILD=ON \
      -DPEERCACHE_PYTHON_INCLUDE="$include" -DPEERCACHE_PYTHON_SOABI="$soabi" -DPEERCACHE_PYBIND11_INCLUDE="$pybind11" &&
    nice cmake --build build/release -j "${JOBS:-$(nproc)}" --target peercached _peercache) >"$out.log" 2>&1 || {
    tail -30 "$out.log" >&2
    die "the data plane of commit $commit cannot be built" "see above; all of it is in $out.log"
  }
  mkdir "$made/python"
  mv "$source/dataplane/build/release/peercached" "$made/peercached"
  mv "$source/dataplane/build/release/python/_peercache.$soabi.so" "$made/python/"
  rm -rf "$source"
}

mkdir -p "${out%/*}"
# Two builds at once would do all the work twice.
exec 9>"$out.lock"
flock 9
made_once "$out" build
"$out/peercached" --version >/dev/null ||
  die "$out/peercached was built with other libraries than there are now" "rm -r $out, and run this again"
echo "$out"
