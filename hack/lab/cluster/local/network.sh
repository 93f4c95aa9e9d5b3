# shellcheck shell=bash
# The wires: a switch namespace holding a bridge, one namespace per node, one cable into the host, so
# that the host reaches nodes and pods as a machine in the same rack would.
#
#   host (<prefix>-host .1) ─┐
#   n1 (eth0 .11) ───────────┤ bridge br0 in <prefix>-switch
#   n2 (eth0 .12) ───────────┘
#
# A second bridge joins the nodes' fabric0, as the switch of a RoCE fabric would: no addresses, jumbo frames.

SWITCH=$PREFIX-switch

net_up() {
  local node other ns
  modprobe -qa overlay bridge br_netfilter veth nf_tables nf_conntrack 2>/dev/null || true  # may be built in
  if ip -o addr show | grep -q " $NET\.1/"; then
    die "the network $NET.0/24 is in use on this machine" "choose another: PEERCACHE_CLUSTER_NET=10.112.0"
  fi
  ip netns add "$SWITCH"
  ip -n "$SWITCH" link set lo up
  ip -n "$SWITCH" link add br0 type bridge
  ip -n "$SWITCH" link set br0 up
  ip -n "$SWITCH" link add br1 type bridge
  ip -n "$SWITCH" link set br1 mtu "$FABRIC_MTU" up
  # Bridged frames must not pass through netfilter here: the switch is a switch.
  # shellcheck disable=SC2016  # expanded inside
  nsenter --net="/run/netns/$SWITCH" sh -c \
    'for f in /proc/sys/net/bridge/bridge-nf-call-*tables; do [ ! -e "$f" ] || echo 0 > "$f"; done'
  ip link add "$HOST_IF" type veth peer name host netns "$SWITCH"
  ip -n "$SWITCH" link set host master br0 up
  ip addr add "$NET.1/24" dev "$HOST_IF"
  ip addr add "${NET6}1/64" nodad dev "$HOST_IF"
  ip link set "$HOST_IF" up
  for node in "${NODES[@]}"; do
    ns=$(node_netns "$node")
    ip netns add "$ns"
    ip -n "$ns" link set lo up
    ip -n "$ns" link add eth0 type veth peer name "$node" netns "$SWITCH"
    ip -n "$SWITCH" link set "$node" master br0 up
    ip -n "$ns" addr add "$(node_ip "$node")/24" dev eth0
    ip -n "$ns" addr add "$(node_ip6 "$node")/64" nodad dev eth0
    ip -n "$ns" link set eth0 up
    ip -n "$ns" route add default via "$NET.1"
    ip -n "$ns" route add default via "${NET6}1"
    ip -n "$ns" link add "$FABRIC_IF" mtu "$FABRIC_MTU" type veth peer name "f-$node" mtu "$FABRIC_MTU" netns "$SWITCH"
    ip -n "$SWITCH" link set "f-$node" master br1 up
    ip -n "$ns" link set "$FABRIC_IF" up
    for other in "${NODES[@]}"; do
      [ "$other" != "$node" ] || continue
      ip -n "$ns" route add "$(pod_cidr "$other")" via "$(node_ip "$other")"
      ip -n "$ns" route add "$(pod_cidr6 "$other")" via "$(node_ip6 "$other")"
    done
    ip route replace "$(pod_cidr "$node")" via "$(node_ip "$node")" dev "$HOST_IF"
    ip route replace "$(pod_cidr6 "$node")" via "$(node_ip6 "$node")" dev "$HOST_IF"
  done
}

net_down() {
  local node
  ip link del "$HOST_IF" 2>/dev/null || true
  for node in "${NODES[@]}"; do ip netns del "$(node_netns "$node")" 2>/dev/null || true; done
  ip netns del "$SWITCH" 2>/dev/null || true
}

# The plug is pulled at the switch: the node sees its carrier go, and keeps addresses and routes.
net_link() {  # net_link NODE up|down
  ip -n "$SWITCH" link set "$1" "$2"
}
