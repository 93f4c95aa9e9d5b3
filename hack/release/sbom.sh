#!/usr/bin/env bash
# What is in each image, for who has to know: dist/release/IMAGE.spdx.json (SPDX 2.3), of the packages of Debian and the
# modules of Go in the image itself, and of what its programs are compiled from, with their licences (internal/sbom).
# IMAGE-arm64.spdx.json where that is built.
#
#   hack/release/sbom.sh [IMAGE...]     operator, dataplane and client when none is named; they must be built
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$PEERCACHE_ROOT/hack/release/images/targets.sh"
. "$PEERCACHE_ROOT/hack/lab/cluster/toolset.sh"

OUT=$PEERCACHE_ROOT/dist/release

need go jq
[ $# -gt 0 ] || set -- operator dataplane client
for image in "$@"; do
  target_sources "$image" >/dev/null
done
mkdir -p "$OUT"
for image in "$@"; do
  archives=$(image_archives "$image")
  while read -r archive; do
    name=$(basename "$archive" .tar)
    file=$OUT/${name/-$VERSION/}.spdx.json
    (cd "$PEERCACHE_ROOT" && go run ./internal/sbom "$(image_name "$image")" "$archive") >"$file.new" </dev/null
    mv "$file.new" "$file"
    note "${file#"$PEERCACHE_ROOT"/}: $(($(jq '.packages | length' "$file") - 1)) packages"
  done <<<"$archives"
done
