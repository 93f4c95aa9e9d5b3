#!/usr/bin/env bash
# What the add-on `fabric` runs: images of Multus and of the test device plug-in, and the manifests that Multus and
# whereabouts come with. Prints the folder.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
need go jq

BIN=$(toolset_bin)
OUT=$PEERCACHE_CACHE/fabric/$({ echo "$BIN"; cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-64)
MULTUS_IMAGE=docker.io/peercache/test-multus:cluster
PLUGIN_IMAGE=docker.io/peercache/test-rdma-plugin:cluster

make_all() {  # make_all DIR
  local dir=$1 inside=/usr/src/multus-cni/bin files=() program multus whereabouts
  step "the add-on fabric: multus, whereabouts, a test device plug-in"
  multus=$(module_dir multus gopkg.in/k8snetworkplumbingwg/multus-cni.v4)
  whereabouts=$(module_dir whereabouts github.com/k8snetworkplumbingwg/whereabouts)
  for program in install_multus multus-daemon multus-shim passthru; do files+=("$BIN/$program:$inside/$program"); done
  # The daemon is told of network namespaces as the runtime names them, below /var/run.
  "$BIN/mkimage" -o "$dir/multus.tar" -t "$MULTUS_IMAGE" -entrypoint "$inside/multus-daemon" -link /var/run=/run "${files[@]}"
  "$BIN/mkimage" -o "$dir/rdma-plugin.tar" -t "$PLUGIN_IMAGE" -entrypoint /rdma-plugin "$BIN/rdma-plugin:/rdma-plugin"
  # Its own limits are for quick-start on large machines: a tenth of a core makes each pod wait for seconds.
  sed -e "s#image: .*multus-cni:.*#image: $MULTUS_IMAGE#" \
    -e '/limits:/,+2{s/cpu: .*/cpu: "1"/; s/memory: .*/memory: "256Mi"/}' \
    "$multus/deployments/multus-daemonset-thick.yml" > "$dir/multus.yaml"
  for program in ippools overlappingrangeipreservations; do
    echo ---
    cat "$whereabouts/doc/crds/whereabouts.cni.cncf.io_$program.yaml"
  done > "$dir/whereabouts-crds.yaml"
}

made_once "$OUT" make_all
echo "$OUT"
