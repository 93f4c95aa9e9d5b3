# shellcheck shell=bash
# Sourced in a guest: two nodes, A and B, each a network namespace with its own rails and RDMA devices.
#
#   . hack/lab/soft-rdma/fabric.sh
#   fabric_up                       # the devices of A: rxe_a0 rxe_a1; of B: rxe_b0 rxe_b1
#   on A ib_read_bw -d rxe_a0 & on B ib_read_bw -d rxe_b0 "$(rail_address A 0)"
#   rail_down A 1; rail_up A 1; netem A 0 loss 1% delay 2ms; netem_off A 0
#
#                     A                      B
#   interface mgmt0   10.10.0.1              10.10.0.2          for TCP only, MTU 1500
#   interface rail0   10.20.0.1 fd00:20::1   10.20.0.2 fd00:20::2      an rxe device on each, MTU 9000
#   interface rail1   10.20.1.1 fd00:21::1   10.20.1.2 fd00:21::2
#
# Each interface is one end of a veth pair, so the frames of RoCEv2 do cross from one node's IP stack to the other's.
# A node sees its own devices only.

[ -n "${SOFT_RDMA_GUEST:-}" ] || { echo "fabric.sh changes the network: run this with hack/lab/soft-rdma/run.sh" >&2; exit 1; }
SOFT_RDMA=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RAILS=${RAILS:-2}
RAIL_MTU=${RAIL_MTU:-9000}

on() {  # on NODE CMD...: as a process of that node
  local node=$1
  shift
  ip netns exec "$node" "$@"
}

# start NODE CMD...: the same in the background; $! is the command itself, so that it can be killed.
start() {
  local node=$1
  shift
  ip netns exec "$node" "$@" &
}

node_number() { case $1 in A) echo 1 ;; B) echo 2 ;; *) echo "no node '$1'" >&2; return 1 ;; esac; }
rail_device() { echo "rxe_${1,,}$2"; }                              # rail_device NODE RAIL
rail_address() { echo "10.20.$2.$(node_number "$1")"; }             # rail_address NODE RAIL
rail_address6() { echo "fd00:$((20 + $2))::$(node_number "$1")"; }  # rail_address6 NODE RAIL
management_address() { echo "10.10.0.$(node_number "$1")"; }        # management_address NODE

# One call of ip for each node: a guest starts programs slowly.
fabric_up() {
  local node rail
  # Before the first namespace is made: the mode cannot be changed any more then.
  rdma system set netns exclusive
  ip netns add A
  ip netns add B
  {
    _wire mgmt0
    for ((rail = 0; rail < RAILS; rail++)); do _wire "rail$rail"; done
  } | ip -batch -
  for node in A B; do
    {
      echo "link set lo up"
      _end mgmt0 1500 "$(management_address $node)/24"
      for ((rail = 0; rail < RAILS; rail++)); do
        _end "rail$rail" "$RAIL_MTU" "$(rail_address $node "$rail")/24"
        echo "addr add $(rail_address6 $node "$rail")/64 dev rail$rail nodad"
      done
    } | ip -n $node -batch -
    for ((rail = 0; rail < RAILS; rail++)); do device_add $node "$rail"; done
  done
  for ((rail = 0; rail < RAILS; rail++)); do
    for node in A B; do rail_ready $node "$rail"; done
  done
}

_wire() { echo "link add $1 netns A type veth peer name $1 netns B"; }  # _wire INTERFACE: one end in A, one in B

_end() {  # _end INTERFACE MTU ADDRESS
  echo "link set $1 mtu $2 up"
  echo "addr add $3 dev $1"
}

# gid_index NODE RAIL 4|6: of the RoCEv2 GID that is the rail's address; fails when there is none.
gid_index() {
  local address
  if [ "$3" = 4 ]; then address=$(rail_address "$1" "$2"); else address=$(rail_address6 "$1" "$2"); fi
  on "$1" "$SOFT_RDMA/gid-index.sh" "$(rail_device "$1" "$2")" "$address"
}

# rail_ready NODE RAIL: waits until the port is active and has a GID for both of its addresses.
rail_ready() {
  on "$1" "$SOFT_RDMA/await-port.sh" "$(rail_device "$1" "$2")" "$(rail_address "$1" "$2")" "$(rail_address6 "$1" "$2")" \
    >/dev/null
}

rail_down() { ip -n "$1" link set "rail$2" down; }  # rail_down NODE RAIL: the other end loses its carrier

# port_becomes WHAT NODE DEVICE STATE: the kernel tells a port of its link's end some time after the link has ended.
port_becomes() {
  local state='' end=$((SECONDS + 10))
  until [ "$state" = "$4" ]; do
    [ "$SECONDS" -lt "$end" ] || { echo "$1: wanted '$4', still '$state' after 10 s"; exit 1; }
    state=$(on "$2" cat "/sys/class/infiniband/$3/ports/1/state")
  done
}

# rail_up NODE RAIL. An interface that goes down loses its IPv6 addresses, and with them the GID.
rail_up() {
  ip -n "$1" link set "rail$2" up
  ip -n "$1" addr replace "$(rail_address6 "$1" "$2")/64" dev "rail$2" nodad
  rail_ready "$1" "$2"
}

device_add() { on "$1" rdma link add "$(rail_device "$1" "$2")" type rxe netdev "rail$2"; }  # device_add NODE RAIL

# device_remove NODE RAIL: programs that have it open are told (IBV_EVENT_DEVICE_FATAL) and get EIO from then on.
device_remove() { on "$1" rdma link delete "$(rail_device "$1" "$2")"; }

netem() {  # netem NODE RAIL ARGS...: what the node sends on the rail suffers from, as in tc-netem(8)
  local node=$1 rail=$2
  shift 2
  on "$node" tc qdisc replace dev "rail$rail" root netem limit 10000 "$@"
}
netem_off() { on "$1" tc qdisc del dev "rail$2" root; }

# counter NODE RAIL NAME: of the device, e.g. sent_pkts, duplicate_request, completer_retry_err.
counter() { on "$1" cat "/sys/class/infiniband/$(rail_device "$1" "$2")/ports/1/hw_counters/$3"; }

# wait_port NODE TCP_PORT: until somebody listens there, 10 s at most.
wait_port() {
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    if [ -n "$(on "$1" ss -Hltn "sport = :$2" 2>/dev/null)" ]; then return 0; fi
    sleep 0.1
  done
  echo "nobody listens on port $2 of node $1 after 10 s" >&2
  return 1
}

# fabric_tests MODULE [FILTER]: brings the nodes up and runs the module's C++ tests that need devices, on both rails of A.
fabric_tests() {
  fabric_up
  PEERCACHE_TEST_RAILS=$(rail_device A 0),$(rail_device A 1)
  export PEERCACHE_TEST_RAILS
  on A "dataplane/build/release/$1_fabric_test" --gtest_filter="${2:-*}"
}
