#!/usr/bin/env bash
# Writes dist/push-kit.tar: all that push.sh needs besides this tree, so that whoever may push and sign builds nothing.
#
#   hack/release/kit.sh                       where images have been built
#   PUSH_KIT=FOLDER hack/release/push.sh ...  where dist/push-kit.tar has been unpacked into FOLDER
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$PEERCACHE_ROOT/hack/release/images/targets.sh"

OUT=${RELEASE_OUT:-$PEERCACHE_ROOT/dist}
kit=$(mktemp -d)
trap 'rm -rf "$kit"' EXIT
mkdir "$kit/bin" "$kit/images"
tools=$("$PEERCACHE_ROOT/hack/lab/cluster/build.sh" --push)
cp -L "$tools/crane" "$tools/helm" "$kit/bin"
(cd "$PEERCACHE_ROOT/hack/release/olm" && CGO_ENABLED=0 go run . ../../.. "$kit/bundle")
for image in operator dataplane client; do
  archives=$(image_archives "$image")
  while read -r archive; do ln -s "$archive" "$archive.inputs" "$kit/images"; done <<<"$archives"
done
mkdir -p "$OUT"
tar -C "$kit" -chf "$OUT/push-kit.tar" .
note "$OUT/push-kit.tar"
