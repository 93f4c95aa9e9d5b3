#!/usr/bin/env bash
# Loads the built images into the running cluster.
#   hack/release/images/load-images.sh [operator|dataplane|client|engine|embedded ...]    default: all
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/targets.sh"
[ $# -gt 0 ] || set -- "${TARGETS[@]}"
archives=()
for target in "$@"; do
  target_sources "$target" >/dev/null
  [ -f "$(image_archive "$target")" ] || die "image '$target' is not built" "hack/release/images/build-images.sh $target"
  archives+=("$(image_archive "$target")")
done
exec "$HERE/../../lab/cluster/cluster" load-image "${archives[@]}"
