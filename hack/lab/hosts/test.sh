#!/usr/bin/env bash
# Builds PeerCache and runs its C++ unit tests on another system that it supports, in a root made from packages.
#
#   hack/lab/hosts/test.sh debian-13 | ubuntu-24.04 | debian-12 [make target ...]     (deps build test-cpp)
#   CI= hack/lab/hosts/test.sh ubuntu-24.04 demo        # without chromium, which is a snap there: no picture at the end
#
# The root lies in the cache, and what was built in it stays there for the next time: half an hour when cold, on two
# cores. What is committed is built. Needs root and mmdebstrap.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/root.sh"

host=${1:-}
shift || true
export CI=${CI-true}
targets=("${@:-deps build test-cpp}")
case $host in
  debian-12) suite=bookworm mirror=http://deb.debian.org/debian components=main ;;
  debian-13) suite=trixie mirror=http://deb.debian.org/debian components=main ;;
  ubuntu-24.04) suite=noble mirror=http://archive.ubuntu.com/ubuntu components=main,universe ;;
  *) die "no host '$host'" "name one of: debian-12 debian-13 ubuntu-24.04" ;;
esac
need_root
need mmdebstrap

ROOT=$PEERCACHE_CACHE/hosts/$host
make_root "$ROOT" "$suite" "$mirror" $components ''
update_root "$ROOT"
step "$host: make ${targets[*]}"
in_root "$ROOT" "make ${targets[*]}"
note "$host: passed"
