# shellcheck shell=bash
# The router between the rails' subnets, as the lane's network namespace is one: each port of the guest has a wire to it.

router_up() {
  local numa
  for numa in 0 1; do
    ip tuntap add "rail$numa" mode tap
    ip addr add "$(router_ip $numa)/24" dev "rail$numa"
    ip link set "rail$numa" mtu 9000 up
    # The pod's interface has the port's address, too. RoCE is the port's.
    ip neigh replace "$(rail_ip $numa)" lladdr "$(rail_mac $numa)" dev "rail$numa" nud permanent
  done
  echo 1 >/proc/sys/net/ipv4/ip_forward
  nft -f - <<N
table ip router {
  counter roce {}
  chain forward {
    type filter hook forward priority filter; policy accept;
  }
}
N
  roce_forwarded
}

# A switch that drops RoCE, until it does no more.
roce_dropped() { nft add rule ip router forward udp dport 4791 drop; }
roce_forwarded() { nft flush chain ip router forward && nft add rule ip router forward udp dport 4791 counter name roce; }

# Bytes of RoCE that went from one subnet to the other.
routed_bytes() { nft -j list counter ip router roce | jq '.nftables[] | .counter // empty | .bytes'; }
