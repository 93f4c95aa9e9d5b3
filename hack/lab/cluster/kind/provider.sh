# shellcheck shell=bash
# Provider `kind`: the same hooks over Kubernetes in Docker. Needs a Docker engine and the node image.

KIND_NAME=${PEERCACHE_KIND_NAME:-peercache}

kind_() { "$BIN/kind" "$@" --name "$KIND_NAME"; }
kind_nodes() { "$BIN/kind" get nodes --name "$KIND_NAME" 2>/dev/null; }

provider_up() {
  local archives
  need docker
  echo "$BIN" > "$CLUSTER_DIR/programs"
  docker info >/dev/null 2>&1 || die "no Docker engine answers" "start it, or use PROVIDER=local"
  if [ -z "$(kind_nodes)" ]; then
    step "creating kind cluster '$KIND_NAME' from $KIND_NODE_IMAGE"
    kind_ create cluster --image "$KIND_NODE_IMAGE" --config "${PEERCACHE_KIND_CONFIG:-$HERE/kind/kind.yaml}" --kubeconfig "$KUBECONFIG" --wait 180s >&2
  fi
  "$BIN/kind" get kubeconfig --name "$KIND_NAME" > "$KUBECONFIG"
  chmod 600 "$KUBECONFIG"
  wait_nodes_ready 3 180
  # The control plane runs pods too: the tests count on three nodes.
  "$BIN/kubectl" taint nodes --all node-role.kubernetes.io/control-plane:NoSchedule- >/dev/null 2>&1 || true
  archives=$("$HERE/images.sh" busybox)
  provider_load_images "$archives/busybox.tar"
}

provider_down() {
  BIN=$(programs)
  [ -x "$BIN/kind" ] || BIN=$(build_programs)
  kind_ delete cluster --kubeconfig "$KUBECONFIG" >&2
}

provider_status() {
  kind_nodes | sed 's/^/    /' >&2
  "$BIN/kubectl" --request-timeout=5s get nodes -o wide ||
    die "the API server does not answer" "hack/lab/cluster/cluster control-plane start"
}

provider_load_images() {
  local archive start
  for archive in "$@"; do
    start=$SECONDS
    kind_ load image-archive "$archive" || die "loading $archive failed" "is it a docker archive? see the message above"
    note "$archive on all nodes ($((SECONDS - start)) s)"
  done
}

kind_need_node() {
  kind_nodes | grep -qx -- "$1" || die "node '$1' does not exist" "use one of: $(kind_nodes | paste -sd' ')"
}

provider_node_exec() {  # provider_node_exec NODE CMD...
  kind_need_node "$1"
  docker exec -i "$@"
}

provider_node_restart() {
  kind_need_node "$1"
  docker kill "$1" >/dev/null
  docker start "$1" >/dev/null
}

# The plug is pulled at the engine's side of the cable, so that the node keeps addresses and routes.
provider_node_link() {
  local peer
  kind_need_node "$1"
  peer=$(docker exec "$1" cat /sys/class/net/eth0/iflink)
  docker run --rm --privileged --net=host --entrypoint bash "$KIND_NODE_IMAGE" -c \
    "ip link set dev \"\$(ip -o link | sed -n 's/^$peer: \([^@:]*\).*/\1/p')\" $2"
}

# The machine of kind has one network, and its image lacks most CNI plug-ins.
provider_fabric() { die "kind's machines have no second network" "use PROVIDER=local"; }

provider_control_plane() {
  local node=$KIND_NAME-control-plane manifests=/etc/kubernetes/manifests
  if [ "$1" = stop ]; then
    # Without its manifest the kubelet does not start it again; killed, not asked: a crash is what is meant.
    docker exec "$node" sh -c "mv $manifests/kube-apiserver.yaml /etc/kubernetes/ && pkill -9 -x kube-apiserver"
    wait_for 10 "API server to stop" sh -c "! '$BIN/kubectl' --request-timeout=1s get --raw /livez"
  else
    docker exec "$node" sh -c "[ ! -e /etc/kubernetes/kube-apiserver.yaml ] || mv /etc/kubernetes/kube-apiserver.yaml $manifests/"
    wait_for 120 "API server to start" "$BIN/kubectl" --request-timeout=2s get --raw /readyz
  fi
}
