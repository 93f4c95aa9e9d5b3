# shellcheck shell=bash
# Names and addresses of the namespace cluster. Sourced on the host and inside the nodes.
# BIN and CLUSTER_DIR are set by the caller.
# shellcheck disable=SC2034  # used by those who source this

NODES=(n1 n2 n3)                                # n1 also carries the control plane
PREFIX=${PEERCACHE_CLUSTER_PREFIX:-peercache}   # of network namespaces, host interface, cgroups
NET=${PEERCACHE_CLUSTER_NET:-10.111.0}          # /24 between nodes and host; host .1, node i .1i
POD_NET=${PEERCACHE_CLUSTER_POD_NET:-10.244}    # /16; node i has .i.0/24
API=https://$NET.11:6443
# What Kubernetes uses: ipv4, ipv6, dual (IPv4 first) or dual6 (IPv6 first). Nodes have addresses of both anyway, and the
# API server is reached from outside at that of IPv4.
FAMILIES=${PEERCACHE_CLUSTER_IP:-ipv4}
NET6=fd00:${NET//./:}::                         # /64; host 1, node i 1i
POD_NET6=fd00:${POD_NET//./:}                   # /48; node i has :i::/64

in_families() {  # in_families OF_IPV4 OF_IPV6: those that Kubernetes uses, in its order, with a comma between
  case $FAMILIES in
    ipv4) echo "$1" ;;
    ipv6) echo "$2" ;;
    dual) echo "$1,$2" ;;
    dual6) echo "$2,$1" ;;
    *) die "PEERCACHE_CLUSTER_IP='$FAMILIES' is not known" "use ipv4, ipv6, dual or dual6" ;;
  esac
}
first() { echo "${1%%,*}"; }

SERVICE_CIDR=$(in_families 10.96.0.0/16 fd00:10:96::/112)
POD_CIDR=$(in_families "$POD_NET.0.0/16" "$POD_NET6::/48")
DNS_IP=$(first "$(in_families 10.96.0.10 fd00:10:96::a)")
PAUSE_IMAGE=registry.k8s.io/pause:3.10.1
CRI_SOCKET=/run/containerd/containerd.sock
CNI_PLUGINS=/usr/lib/cni                        # Debian's containernetworking-plugins
HOST_IF=$PREFIX-host
FABRIC_IF=fabric0                               # of each node, in the second network
FABRIC_MTU=9000

node_index() { echo "${1#n}"; }
node_ip() { echo "$NET.1$(node_index "$1")"; }
node_dir() { echo "$CLUSTER_DIR/$1"; }
node_netns() { echo "$PREFIX-$1"; }
node_ip6() { echo "${NET6}1$(node_index "$1")"; }
node_ips() { in_families "$(node_ip "$1")" "$(node_ip6 "$1")"; }
pod_cidr() { echo "$POD_NET.$(node_index "$1").0/24"; }
pod_cidr6() { echo "$POD_NET6:$(node_index "$1")::/64"; }

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
