#!/usr/bin/env bash
# Builds PeerCache for arm64, and runs its C++ unit tests and two nodes under an emulator (emulated.sh), in a root of Debian 12 made from
# packages: those of arm64 replace this machine's where both are installed.
#
#   hack/lab/hosts/arm64.sh
#
# The root lies in the cache, with what was built in it. What is committed is built. Needs root and mmdebstrap.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/root.sh"
. "$HERE/../../release/images/emulator.sh"

export CI=${CI-true}
need_root
need mmdebstrap

PACKAGES=(
  g++-aarch64-linux-gnu cmake ninja-build ccache pkg-config qemu-user-static iproute2 jq python3
  {libibverbs,librdmacm,libnuma,liburing,libspdlog,libfmt,libxxhash,prometheus-cpp,libmicrohttpd,libssl,libgtest,libgmock}-dev:arm64
  libasio-dev libcli11-dev nlohmann-json3-dev
)
ROOT=$PEERCACHE_CACHE/hosts/arm64
make_root "$ROOT" bookworm http://deb.debian.org/debian main "$(IFS=,; echo "${PACKAGES[*]}")" --architectures=amd64,arm64
update_root "$ROOT"
trap emulate_arm64_no_more EXIT
emulate_arm64 "$ROOT/usr/bin/qemu-aarch64-static"
step "arm64: unit tests and two nodes, emulated"
in_root "$ROOT" "make build-arm64 && hack/lab/hosts/emulated.sh"
note "arm64: passed"
