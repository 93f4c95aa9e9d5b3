#!/usr/bin/env bash
# What the add-on `registry` runs: the image of a registry. Prints the folder.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"

BIN=$(toolset_bin)
PROGRAM=$("$HERE/build.sh" --registry)/registry
CONFIG=$HERE/registry/config.yaml
OUT=$PEERCACHE_CACHE/registry-image/$({ echo "$BIN $(readlink -f "$PROGRAM")"; cat "$CONFIG" "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-64)

make_image() {  # make_image DIR
  step "the add-on registry: its image"
  "$BIN/mkimage" -o "$1/registry.tar" -t docker.io/peercache/test-registry:cluster \
    -entrypoint /registry,serve,/registry.yaml "$PROGRAM:/registry" "$CONFIG:/registry.yaml"
}

made_once "$OUT" make_image
echo "$OUT"
