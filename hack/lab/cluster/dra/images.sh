#!/usr/bin/env bash
# What the add-on `dra` runs: the image of the test driver. Prints the folder.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"

BIN=$(toolset_bin)
OUT=$PEERCACHE_CACHE/dra/$({ echo "$BIN"; cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-64)
IMAGE=docker.io/peercache/test-dra-driver:cluster

make_image() {  # make_image DIR
  step "the add-on dra: a test driver"
  "$BIN/mkimage" -o "$1/dra-driver.tar" -t "$IMAGE" -entrypoint /dra-driver "$BIN/dra-driver:/dra-driver"
}

made_once "$OUT" make_image
echo "$OUT"
