# shellcheck shell=bash
# The control plane, on this machine: as programs, in a network namespace of its own that the guest is wired to. It has
# the addresses of the two Services that pods use, so that the guest needs no kube-proxy.

network_up() {
  ip link set lo up
  ip addr add "$KUBERNETES_IP/32" dev lo
  ip addr add "$DNS_IP/32" dev lo
  ip tuntap add tap0 mode tap
  ip addr add "$NET.11/24" dev tap0
  ip link set tap0 up
  ip route add "$(pod_cidr "$NODE")" via "$(node_ip "$NODE")"
}

control_plane_up() {
  mkdir -p "$LOGS" "$DIR/pids"
  run_etcd
  run_apiserver
  wait_for 120 "API server (see $LOGS/kube-apiserver.log)" kubectl get --raw /readyz
  kubectl apply -f "$PEERCACHE_ROOT/hack/lab/cluster/local/rbac.yaml" -f "$PEERCACHE_ROOT/config/crd/peercache.io_peercacheclusters.yaml" \
    -f "$PEERCACHE_ROOT/config/admission/networks.yaml" >/dev/null
  run_controllers
  supervise service socat "TCP-LISTEN:443,bind=$KUBERNETES_IP,fork,reuseaddr" "TCP:$NET.11:6443"
  kubectl create --dry-run=client -o json -f "$PEERCACHE_ROOT/hack/lab/cluster/coredns.yaml" |
    jq -rs '.[] | select(.kind == "ConfigMap").data.Corefile' |
    sed "s#kubernetes cluster.local .*#&\nkubeconfig $KUBECONFIG#" >"$CLUSTER_DIR/Corefile"
  supervise coredns coredns -conf "$CLUSTER_DIR/Corefile"
}

operator_up() {
  supervise operator "$CLUSTER_DIR/peercache-operator" --namespace=peercache-system --webhook=disabled \
    --metrics-bind-address=0 --health-probe-bind-address=0
}
