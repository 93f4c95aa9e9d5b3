#!/usr/bin/env bash
# What the add-on `lws` runs: the image of the controllers of LeaderWorkerSets, and the manifests of their release. Prints the
# folder.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
need go jq

MADE_WITH=$(toolset_bin)
BIN=$("$HERE/build.sh" --lws)
OUT=$PEERCACHE_CACHE/lws-image/$({ echo "$MADE_WITH $BIN"; cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-64)
IMAGE=docker.io/peercache/test-lws:cluster

make_all() {  # make_all DIR
  local dir=$1 module
  step "the add-on lws: controllers of LeaderWorkerSets"
  module=$(module_dir lws sigs.k8s.io/lws)
  "$MADE_WITH/mkimage" -o "$dir/lws.tar" -t "$IMAGE" -entrypoint /manager -user 65532:65532 "$BIN/lws:/manager"
  # One of it, on a small machine.
  "$MADE_WITH/kubectl" kustomize "$module/config/default" 2>/dev/null |
    sed -e "s#image: .*/lws:.*#image: $IMAGE#" -e 's/^  replicas: 2$/  replicas: 1/' \
      -e 's/^\( *\)cpu: 1$/\1cpu: 50m/; s/^\( *\)memory: 1Gi$/\1memory: 64Mi/' >"$dir/lws.yaml"
  grep -q "image: $IMAGE" "$dir/lws.yaml" || die "the manifests of LeaderWorkerSets name their image otherwise" "see $module/config/default"
}

made_once "$OUT" make_all
echo "$OUT"
