#!/usr/bin/env bash
# PeerCache over RoCE under a real Kubernetes: a guest of two NUMA nodes with a port each is the node of a cluster whose
# control plane runs on this machine. See kubernetes/checks.sh for what is shown, docs/dev/rdma.md for what it stands for.
#
#   hack/lab/soft-rdma/qemu/kubernetes.sh      make test-rdma-kubernetes; logs lie in dataplane/build/soft-rdma/kubernetes
set -euo pipefail
QEMU=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$QEMU/../../../lib.sh"
. "$PEERCACHE_ROOT/hack/lab/cluster/toolset.sh"
. "$PEERCACHE_ROOT/hack/release/images/targets.sh"
cd "$PEERCACHE_ROOT"
LIMIT=${LIMIT:-2400}  # seconds, for all
export CLUSTER_DIR=$PEERCACHE_ROOT/dataplane/build/soft-rdma/kubernetes

if [ "${1:-}" != inside ]; then
  need_root
  need ip nft unshare qemu-system-x86_64 mkfs.ext4 socat jq runc busybox go
  rm -rf "$CLUSTER_DIR"
  mkdir -p "$CLUSTER_DIR/log"
  step "programs and images (cached)"
  BIN=$(hack/lab/cluster/build.sh --bin-dir)
  RDMA_BIN=$(hack/lab/cluster/build.sh --rdma)
  CLUSTER_IMAGES=$(hack/lab/cluster/images.sh)
  FABRIC=$(hack/lab/cluster/fabric/images.sh)
  export BIN RDMA_BIN CLUSTER_IMAGES FABRIC
  hack/release/images/build-images.sh dataplane
  go build -ldflags "-s -w -X main.version=$VERSION" -o "$CLUSTER_DIR/peercache-operator" ./operator
  "$QEMU/kernel.sh" >/dev/null
  # All that is started in there ends with it; nothing of its network and mounts is seen outside.
  status=0
  timeout -k 10 "$LIMIT" unshare --net --mount --propagation private --pid --fork --kill-child --mount-proc \
    bash "${BASH_SOURCE[0]}" inside || status=$?
  [ $status != 124 ] || die "not over after $LIMIT s" "see $CLUSTER_DIR/log and $CLUSTER_DIR/guest/log; give it more with LIMIT="
  exit $status
fi

export KUBECONFIG=$CLUSTER_DIR/kubeconfig PATH=$BIN:$PATH
. "$QEMU/kubernetes/settings.sh"
. "$PEERCACHE_ROOT/hack/lab/cluster/local/node-config.sh"
. "$PEERCACHE_ROOT/hack/lab/cluster/local/node-daemons.sh"
. "$QEMU/kubernetes/disk.sh"
. "$QEMU/kubernetes/control-plane.sh"
. "$QEMU/kubernetes/router.sh"
. "$QEMU/kubernetes/checks.sh"
. "$QEMU/numa-machine.sh"

guest_up() {
  # Each port is wired to the router, in place of the network of its own that numa-machine.sh gives it.
  local numa machine=$numa_machine
  for numa in 0 1; do
    machine=${machine/-netdev user,id=net$numa,restrict=on/-netdev tap,id=net$numa,ifname=rail$numa,script=no,downscript=no}
    machine=${machine/netdev=net$numa,/netdev=net$numa,mac=$(rail_mac $numa),}
  done
  machine=${machine//1024M/1536M}
  TMPDIR=$CLUSTER_DIR "$QEMU/run.sh" --time "$LIMIT" --one-thread --cpus 4 --memory 3G --work "$CLUSTER_DIR/guest" --qemu "$machine" \
    --qemu "-drive id=disk,file=$CLUSTER_DIR/disk.img,format=raw,if=none,cache=unsafe" \
    --qemu '-device virtio-blk-pci,drive=disk,bus=pcie.0' \
    --qemu '-netdev tap,id=k,ifname=tap0,script=no,downscript=no' \
    --qemu '-device virtio-net-pci,netdev=k,bus=pcie.0,romfile=' \
    bash -euo pipefail hack/lab/soft-rdma/qemu/guest/kubernetes-node.sh >"$LOGS/guest.log" 2>&1 &
  guest=$!
}

# After a failure, what the cluster looks like lies beside the logs.
ended() {
  local status=$?
  [ $status = 0 ] || {
    kubectl get nodes,pods,daemonsets,peercacheclusters -A -o yaml >"$LOGS/objects.yaml" 2>/dev/null || true
    kubectl get pods -A -o wide >&2 2>/dev/null || true
    kubectl get events -A --sort-by=.lastTimestamp 2>/dev/null | tail -15 | cut -c 1-220 >&2 || true
    tail -3 "$LOGS/guest.log" >&2 2>/dev/null || true
    note "logs: $LOGS and $CLUSTER_DIR/guest/log"
  }
  exit $status
}
trap ended EXIT

mount -t tmpfs tmpfs /run
mkdir -p /run/var/lib /run/var/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/var/lib,workdir=/run/var/work var-lib /var/lib
step "certificates, disk"
network_up
router_up
pki_up
plugin_image "$CLUSTER_DIR/plugin.tar"
disk_make "$CLUSTER_DIR/disk.img" "$CLUSTER_IMAGES"/{pause,busybox}.tar "$FABRIC/multus.tar" "$CLUSTER_DIR/plugin.tar" \
  "$(image_archive dataplane)"
step "control plane and guest ($SECONDS s)"
guest_up
control_plane_up
objects_up
operator_up
check_all
touch "$CLUSTER_DIR/guest/done"
wait "$guest" || die "the guest did not end well" "see $LOGS/guest.log"
step "all is as it should be after $SECONDS s"
