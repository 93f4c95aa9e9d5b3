# shellcheck shell=bash
# Provider `local`: every node is a set of namespaces on this machine; see README.md beside this file.

. "$HERE/local/settings.sh"
. "$HERE/local/network.sh"
. "$HERE/local/cgroups.sh"
. "$HERE/local/pki.sh"

provider_up() {
  local start=$SECONDS node
  need_root
  need ip nsenter unshare runc nft conntrack socat jq curl gcc
  case $CLUSTER_DIR in
    /etc/* | /opt/* | /run/* | /var/lib/* | /var/log/*)
      die "PEERCACHE_CLUSTER_DIR=$CLUSTER_DIR lies where nodes get private copies" "use /var/tmp or /home" ;;
  esac
  if all_nodes_alive && [ "$(cat "$CLUSTER_DIR"/{programs,families} 2>/dev/null)" != "$BIN"$'\n'"$FAMILIES" ]; then
    step "the running cluster is of other versions or addresses: starting anew"
    provider_down
  fi
  if all_nodes_alive; then
    step "cluster is up; waiting until it is ready"
    rm -rf "$(node_dir n1)/stopped"  # what a test that was cut short left stopped or unplugged
    for node in "${NODES[@]}"; do net_link "$node" up; done
  else
    provider_down
    CLUSTER_IMAGES=$("$HERE/images.sh")
    export CLUSTER_IMAGES BIN CLUSTER_DIR
    step "network, certificates"
    net_up
    cgroups_up
    pki_up
    step "starting ${NODES[*]}"
    echo "$BIN" > "$CLUSTER_DIR/programs"
    echo "$FAMILIES" > "$CLUSTER_DIR/families"
    nodes_start
  fi
  wait_ready
  step "three nodes Ready after $((SECONDS - start)) s"
}

all_nodes_alive() {
  local node
  for node in "${NODES[@]}"; do node_pid "$node" >/dev/null || return 1; done
}

nodes_start() {
  local node
  for node in "${NODES[@]}"; do node_start "$node"; done
  for node in "${NODES[@]}"; do await_started "$node"; done
}

node_start() {  # node_start NODE; environment: CLUSTER_IMAGES
  local dir
  dir=$(node_dir "$1")
  mkdir -p "$dir"
  # nsenter and not `ip netns exec`: the latter replaces /sys, cgroups included. Locks of the caller are not for daemons: 8 is
  # that of hack/lab/cluster/cluster, 5 and 6 are those of e2e/run.sh.
  setsid nsenter --net="/run/netns/$(node_netns "$1")" \
    unshare --mount --propagation private --uts --ipc --pid --fork --kill-child --mount-proc \
    bash "$HERE/local/node-init.sh" "$1" > "$dir/init.log" 2>&1 < /dev/null 5>&- 6>&- 8>&- &
  echo $! > "$dir/unshare.pid"
}

await_started() {
  local dir
  dir=$(node_dir "$1")
  wait_for 10 "node $1 started (see $dir/init.log)" sh -c "pgrep -P '$(cat "$dir/unshare.pid")' > '$dir/init.pid'"
}

# Kills every process of the node. PID 1 of the namespace takes them with it, and the mounts.
node_kill() {
  local pid
  if pid=$(node_pid "$1"); then kill -9 "$pid"; fi
}

await_dead() {
  local pid
  pid=$(cat "$(node_dir "$1")/unshare.pid" 2>/dev/null) || return 0
  wait_for 20 "processes of $1 to end" sh -c "! kill -0 $pid"
}

wait_ready() {
  wait_for 120 "API server at $API (see $(node_dir n1)/log/kube-apiserver.log)" \
    "$BIN/kubectl" get --raw /readyz
  # What `kubeadm init` would have created.
  "$BIN/kubectl" apply -f "$HERE/local/rbac.yaml" >/dev/null
  sed "s/clusterIP: .*/clusterIP: \"$DNS_IP\"/" "$HERE/coredns.yaml" | "$BIN/kubectl" apply -f - >/dev/null
  wait_nodes_ready "${#NODES[@]}" 120
  "$BIN/kubectl" label --overwrite node n1 node-role.kubernetes.io/control-plane= >/dev/null
  "$BIN/kubectl" -n kube-system rollout status deployment/coredns --timeout=90s >/dev/null
  wait_for 30 "service account of namespace default" "$BIN/kubectl" -n default get serviceaccount default
}

provider_down() {
  local node mounts=()
  need_root
  step "removing nodes, network, cgroups"
  for node in "${NODES[@]}"; do node_kill "$node"; done
  for node in "${NODES[@]}"; do await_dead "$node"; done
  net_down
  wait_for 20 "cgroups of the cluster to empty" cgroups_down
  mapfile -t mounts < <(awk -v d="$CLUSTER_DIR/" 'index($2, d) == 1 {print $2}' /proc/mounts | tac)
  [ ${#mounts[@]} -eq 0 ] || umount -l "${mounts[@]}"
  for node in "${NODES[@]}"; do rm -rf "$(node_dir "$node")"; done
  rm -rf "$PKI" "$KUBECONFIGS" "$KUBECONFIG"
}

provider_status() {
  local node
  for node in "${NODES[@]}"; do
    if node_pid "$node" >/dev/null; then
      note "$node  pid $(node_pid "$node")  link $(ip -n "$SWITCH" -br link show "$node" | awk '{print $2}')  logs $(node_dir "$node")/log"
    else
      note "$node  dead, see $(node_dir "$node")/init.log"
    fi
  done
  "$BIN/kubectl" --request-timeout=5s get nodes -o wide ||
    die "the API server does not answer" "hack/lab/cluster/cluster control-plane start, or look at $(node_dir n1)/log"
}

provider_node_exec() {  # provider_node_exec NODE CMD...
  local node=$1 pid
  shift
  need_node "$node"
  pid=$(node_pid "$node") || die "node $node is dead" "hack/lab/cluster/cluster up"
  nsenter -t "$pid" --mount --uts --ipc --net --pid env PATH="$BIN:$PATH" "$@"
}

provider_node_link() {
  need_node "$1"
  net_link "$1" "$2"
}

# As by a loss of power: processes, /run and memory-backed volumes are gone, files of the disk are not.
provider_node_restart() {
  need_node "$1"
  node_kill "$1"
  await_dead "$1"
  CLUSTER_IMAGES=$("$HERE/images.sh")
  export CLUSTER_IMAGES BIN CLUSTER_DIR
  node_start "$1"
  await_started "$1"
}

provider_fabric() { :; }  # every node has the interface, see network.sh

provider_control_plane() {
  local stopped
  stopped=$(node_dir n1)/stopped
  if [ "$1" = stop ]; then
    mkdir -p "$stopped"
    touch "$stopped/kube-apiserver"
    # Killed, not asked: a crash is what the cluster has to survive.
    provider_node_exec n1 kill -9 "$(cat "$(node_dir n1)/pids/kube-apiserver")" 2>/dev/null || true
    wait_for 10 "API server to stop" sh -c "! curl -sk --max-time 1 $API/livez"
  else
    rm -f "$stopped/kube-apiserver"
    wait_for 90 "API server to start" "$BIN/kubectl" --request-timeout=2s get --raw /readyz
  fi
}

provider_load_images() { . "$HERE/local/load-image.sh"; load_images "$@"; }
