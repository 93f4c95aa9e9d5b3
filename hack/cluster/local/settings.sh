# shellcheck shell=bash
# Names and addresses of the namespace cluster. Sourced on the host and inside the nodes.
# BIN and CLUSTER_DIR are set by the caller.
# shellcheck disable=SC2034  # used by those who source this

NODES=(n1 n2 n3)                                # n1 also carries the control plane
PREFIX=${PEERCACHE_CLUSTER_PREFIX:-peercache}   # of network namespaces, host interface, cgroups
NET=${PEERCACHE_CLUSTER_NET:-10.111.0}          # /24 between nodes and host; host .1, node i .1i
POD_NET=10.244                                  # /16; node i has .i.0/24
SERVICE_CIDR=10.96.0.0/16
DNS_IP=10.96.0.10
API=https://$NET.11:6443
PAUSE_IMAGE=registry.k8s.io/pause:3.10.1
CRI_SOCKET=/run/containerd/containerd.sock
CNI_PLUGINS=/usr/lib/cni                        # Debian's containernetworking-plugins
HOST_IF=pcc-host
FABRIC_IF=fabric0                               # of each node, in the second network
FABRIC_MTU=9000

node_index() { echo "${1#n}"; }
node_ip() { echo "$NET.1$(node_index "$1")"; }
node_dir() { echo "$CLUSTER_DIR/$1"; }
node_netns() { echo "$PREFIX-$1"; }
pod_cidr() { echo "$POD_NET.$(node_index "$1").0/24"; }

need_node() {
  case " ${NODES[*]} " in
    *" $1 "*) ;;
    *) die "node '$1' does not exist" "use one of: ${NODES[*]}" ;;
  esac
}

# Process that is PID 1 of the node's PID namespace, if the node lives.
node_pid() {
  local pid
  pid=$(cat "$(node_dir "$1")/init.pid" 2>/dev/null) && [ -d "/proc/$pid/ns" ] && echo "$pid"
}
