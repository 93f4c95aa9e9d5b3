# shellcheck shell=bash
# Names and addresses of the lane, on this machine and in the guest. CLUSTER_DIR is set by the caller.
# shellcheck disable=SC2034  # used by those who source this
. "$PEERCACHE_ROOT/hack/lab/cluster/local/settings.sh"
. "$PEERCACHE_ROOT/hack/lab/cluster/local/pki.sh"

NODES=(n2)   # n1 is this machine, which carries the control plane and no pods
NODE=n2
KUBERNETES_IP=10.96.0.1    # the Service kubernetes
PLUGIN_IMAGE=docker.io/peercache/test-rdma-shared-plugin:cluster
DIR=$CLUSTER_DIR
LOGS=$CLUSTER_DIR/log

rail_ip() { echo "10.20.$1.1"; }               # rail_ip NUMA-NODE
router_ip() { echo "10.20.$1.254"; }           # router_ip NUMA-NODE
rail_mac() { echo "52:54:00:00:20:0$1"; }      # rail_mac NUMA-NODE
