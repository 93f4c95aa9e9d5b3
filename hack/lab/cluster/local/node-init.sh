#!/usr/bin/env bash
# PID 1 of a node: own mount, PID, UTS and IPC namespaces, in the node's network namespace.
# Makes this namespace look like a machine of its own, then keeps the daemons running.
# usage: node-init.sh NODE     (environment: BIN, CLUSTER_DIR, PEERCACHE_ROOT)
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NODE=$1
. "$HERE/../../../lib.sh"
. "$HERE/../toolset.sh"
. "$HERE/settings.sh"
. "$HERE/pki.sh"
. "$HERE/node-mounts.sh"
. "$HERE/node-config.sh"
. "$HERE/node-daemons.sh"

DIR=$(node_dir "$NODE")
LOGS=$DIR/log
mkdir -p "$LOGS" "$DIR/pids"
hostname "$NODE"

mounts_up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
configs_write

export PATH=$BIN:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[ "$NODE" != n1 ] || { run_etcd; run_apiserver; }
run_containerd
import_images
until curl -sk --max-time 2 "$API/readyz" | grep -qx ok; do sleep 0.2; done
[ "$NODE" != n1 ] || run_controllers
run_kubelet
run_kube_proxy

# Reap what daemons leave behind; end (and take the whole namespace along) on TERM.
trap 'exit 0' TERM
while :; do wait -n 2>/dev/null || sleep 1; done
