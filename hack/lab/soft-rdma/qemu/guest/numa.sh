# shellcheck shell=bash
# In the guest of ../tests/10-numa.sh.
HUGE_PAGES=32  # on each node

node_of_interface() { cat "/sys/class/net/$1/device/numa_node"; }
free_huge_pages() { cat "/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/free_hugepages"; }
interface_of() { cat "/sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/0"; }

[ "$(cat /sys/devices/system/node/online)" = 0-1 ] || { echo "the guest has no two NUMA nodes"; exit 1; }
for interface in /sys/class/net/eth*; do
  interface=${interface##*/}
  node=$(node_of_interface "$interface")
  ip addr add "10.20.$node.1/24" dev "$interface"
  ip link set "$interface" mtu 9000 up
  rdma link add "rxe$node" type rxe netdev "$interface"
  echo $HUGE_PAGES >"/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages"
done

for node in 0 1; do
  index=$(hack/lab/soft-rdma/await-port.sh rxe$node "10.20.$node.1")
  # What a program has to do that wants to know: an rxe device has no parent of its own.
  [ ! -e /sys/class/infiniband/rxe$node/device/numa_node ] || { echo "rxe$node has a parent after all"; exit 1; }
  found=$(node_of_interface "$(interface_of rxe$node)")
  [ "$found" = $node ] || { echo "rxe$node is on NUMA node $found"; exit 1; }

  read_bw=(numactl "--cpunodebind=$node" "--membind=$node" timeout 200 ib_read_bw -d "rxe$node" -x "$index" -F
    -s 131072 -n 128 --use_hugepages)
  "${read_bw[@]}" >"$WORK/server-$node" 2>&1 & server=$!
  until [ -n "$(ss -Hltn 'sport = :18515')" ]; do
    kill -0 $server || { cat "$WORK/server-$node"; exit 1; }
    sleep 0.1
  done
  "${read_bw[@]}" 127.0.0.1 >"$WORK/client-$node" 2>&1 & client=$!
  here=$HUGE_PAGES other=$HUGE_PAGES
  while kill -0 $client 2>/dev/null; do
    now=$(free_huge_pages $node)
    [ "$now" -ge "$here" ] || here=$now
    now=$(free_huge_pages $((1 - node)))
    [ "$now" -ge "$other" ] || other=$now
    sleep 0.1
  done
  wait $client || { cat "$WORK/client-$node"; exit 1; }
  wait $server
  awk -v node=$node '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+/ {print "NUMA node " node ": " $4 " MiB/s"}' "$WORK/client-$node"
  echo "  huge pages that stayed free: $here of $HUGE_PAGES here, $other on the other node"
  [ "$here" -lt $HUGE_PAGES ] || { echo "no huge page of NUMA node $node was used"; exit 1; }
  [ "$other" -eq $HUGE_PAGES ] || { echo "huge pages of the other NUMA node were used"; exit 1; }
done
