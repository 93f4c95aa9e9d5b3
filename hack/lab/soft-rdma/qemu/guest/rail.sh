# shellcheck shell=bash
# One rail of a guest's own: the device rxe0 at 10.20.0.1. What is sent to oneself never comes to the wire.
ip link add rail0 type veth peer name wire0
ip addr add 10.20.0.1/24 dev rail0
ip link set wire0 mtu 9000 up
ip link set rail0 mtu 9000 up
rdma link add rxe0 type rxe netdev rail0
hack/lab/soft-rdma/await-port.sh rxe0 10.20.0.1 >/dev/null
