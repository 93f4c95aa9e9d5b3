#!/usr/bin/env bash
# The main job on clusters of IPv6 alone, and of both families in either order: each comes up beside the cluster of e2e/run.sh,
# and goes again.
#
#   e2e/families.sh ipv6 [dual dual6]
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../hack/lib.sh"

results=${ARTIFACTS:-$HERE/out}
export PROVIDER=local PEERCACHE_CLUSTER_PREFIX=peercache6 PEERCACHE_CLUSTER_NET=10.116.0 PEERCACHE_CLUSTER_POD_NET=10.246
export PEERCACHE_CLUSTER_DIR=/var/tmp/peercache-cluster6
trap '"$HERE/../hack/lab/cluster/cluster" down >/dev/null' EXIT
for PEERCACHE_CLUSTER_IP in "$@"; do
  export PEERCACHE_CLUSTER_IP
  step "a cluster of $PEERCACHE_CLUSTER_IP"
  ARTIFACTS=$results/$PEERCACHE_CLUSTER_IP "$HERE/run.sh" -ginkgo.focus='moves pages between machines|knows its nodes' -ginkgo.label-filter='!full'
done
