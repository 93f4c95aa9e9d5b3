# The two nodes of fabric.sh are what it says: each sees its own devices only, with the GIDs of its addresses and the MTU
# that the interface allows; and programs can use the processor's vector registers in several threads.
# Longest: 120 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh

expect() {  # expect WHAT WANTED GOT
  [ "$2" = "$3" ] || { echo "$1: wanted '$2', got '$3'"; exit 1; }
}

fabric_up
for node in A B; do
  expect "devices of $node" "$(rail_device $node 0) $(rail_device $node 1)" \
    "$(on $node ls /sys/class/infiniband | paste -sd' ')"
  for rail in 0 1; do
    device=$(rail_device $node $rail)
    expect "active MTU of $device" 4096 \
      "$(on $node ibv_devinfo -d "$device" | awk '$1 == "active_mtu:" {print $2}')"
    expect "interface of $device" rail$rail "$(on $node cat "/sys/class/infiniband/$device/ports/1/gid_attrs/ndevs/0")"
    for family in 4 6; do
      gid_index $node $rail $family >/dev/null || { echo "$device has no GID for its IPv$family address"; exit 1; }
    done
  done
done
expect "devices outside of A and B" "" "$(ls /sys/class/infiniband)"

rail_down A 1
port_becomes "port of a rail that is down" A rxe_a1 "1: DOWN"
port_becomes "port at its other end" B rxe_b1 "1: DOWN"
expect "port of the other rail" "4: ACTIVE" "$(on A cat /sys/class/infiniband/rxe_a0/ports/1/state)"
rail_up A 1
rail_ready B 1

# Checksums by whatever vectors the processor has, in threads that share it with one another.
/usr/bin/python3 hack/lab/soft-rdma/tests/vectors.py
