# shellcheck shell=bash
# In the guest of ../tests/12-node-numa.sh.
BUILD=${PEERCACHE_BUILD:-dataplane/build/release}
PEERCACHED=${PEERCACHED:-$BUILD/peercached}
HUGE_PAGES=48  # on each NUMA node; the pool takes 32
CPUS=(0-1 2-3)

fail() { echo "$*"; cat "$WORK/status" "$WORK/log" 2>/dev/null; exit 1; }

# node ARG...: starts one and waits until it answers; its process is $node, its status in $WORK/status
node() {
  "$PEERCACHED" --socket /tmp/peercache.sock --bind-addr 127.0.0.1 --peer-port 0 --http-port 8080 --pool-size 64Mi \
    --promotion-percent 0 --huge-pages 2Mi "$@" >"$WORK/log" 2>&1 &
  node=$!
  for _ in {1..300}; do
    ! curl -sf -o "$WORK/status" http://127.0.0.1:8080/v1/status || return 0
    kill -0 $node || fail "the node ended"
    sleep 0.1
  done
  fail "the node does not answer"
}

shows() { jq -e "$1" "$WORK/status" >/dev/null || fail "/v1/status does not have $1"; }

# is_on NUMA_NODE: every thread and every page of the pool
is_on() {
  shows ".numa.node == $1 and .numa.threads.cpus == \"${CPUS[$1]}\" and .numa.memory.placement == \"bound\""
  shows '.numa.memory.sampled_pages == {node: 32, elsewhere: 0, absent: 0}'
  for thread in /proc/"$node"/task/*; do
    cpus=$(awk '$1 == "Cpus_allowed_list:" {print $2}' "$thread/status")
    # The thread that started the others is where it was; it only waits for signals.
    [ "${thread##*/}" = $node ] || [ "$cpus" = "${CPUS[$1]}" ] || fail "thread ${thread##*/} may run on CPUs $cpus"
  done
  pool=$(grep peercache-pool "/proc/$node/numa_maps")
  [[ $pool == *" bind:$1 "* && $pool == *" N$1=32 "* && $pool != *" N$((1 - $1))="* ]] ||
    fail "the kernel says of the pool: $pool"
}

stop() { kill $node; wait $node || fail "the node ended with status $?"; }

for interface in /sys/class/net/eth*; do
  interface=${interface##*/}
  numa=$(cat "/sys/class/net/$interface/device/numa_node")
  ip addr add "10.20.$numa.1/24" dev "$interface"
  ip link set "$interface" mtu 9000 up
  rdma link add "rxe$numa" type rxe netdev "$interface"
  echo $HUGE_PAGES >"/sys/devices/system/node/node$numa/hugepages/hugepages-2048kB/nr_hugepages"
  # With --transport rdma a node needs a port that can be used when it starts.
  hack/lab/soft-rdma/await-port.sh "rxe$numa" "10.20.$numa.1" >/dev/null
done

for numa in 0 1; do
  echo "== the rail is on NUMA node $numa"
  node --transport rdma --device-name rxe$numa
  is_on $numa
  shows ".numa.why == \"that of rxe$numa:1\""
  stop
done

echo "== rails on both, and none by order"
node --transport rdma --device-name rxe0,rxe1
shows '.numa.node == -1 and .numa.threads.cpus == "" and .numa.memory.placement == "anywhere"'
stop
node --transport rdma --device-name rxe0,rxe1 --numa-node 1
is_on 1
stop

echo "== pages of one node for another, engines and both nodes on NUMA node 1"
PAGES=32 PAGE_BYTES=131072
SLOW=(--lease-ms 20000 --peer-timeout-ms 20000 --member-ttl-ms 60000)  # as emulated machines are
# perf set|get NAME [OPTION...]: what it says is in $WORK/NAME
perf() {
  numactl --cpunodebind=1 --membind=1 timeout 60 "$BUILD/bench/peercache-perf" "$1" --page-bytes $PAGE_BYTES --pages $PAGES \
    --window $PAGES --batch 8 --seconds 0 "${@:3}" >"$WORK/$2" || fail "$2: $(cat "$WORK/$2")"
}
read_bytes() { curl -sf http://127.0.0.1:8080/v1/status | jq '.transport.rails[0].read_bytes'; }
"$PEERCACHED" --node-id holder --socket /tmp/holder.sock --bind-addr 127.0.0.1 --peer-port 31998 --http-port 8081 \
  --discovery-addr 127.0.0.1:31998 --pool-size 64Mi --promotion-percent 0 --huge-pages off --map-pools off --transport rdma \
  --device-name rxe1 "${SLOW[@]}" >"$WORK/holder.log" 2>&1 &
holder=$!
# The first one takes the port of --discovery-addr.
until curl -sf -o /dev/null http://127.0.0.1:8081/readyz; do
  kill -0 $holder || { cat "$WORK/holder.log"; exit 1; }
  sleep 0.1
done
node --node-id reader --transport rdma --device-name rxe1 --discovery-addr 127.0.0.1:31998 --dir-cache-ttl-ms 0 "${SLOW[@]}"
is_on 1
until curl -sf http://127.0.0.1:8081/v1/status |
  jq -e '.numa.node == 1 and [.members[].state] == ["active", "active"]' >/dev/null; do
  kill -0 $holder || { cat "$WORK/holder.log"; exit 1; }
  sleep 0.1
done
perf set set --socket /tmp/holder.sock
# The first get is served over TCP, while queue pairs are made.
for round in {1..30}; do
  [ "$round" -lt 30 ] || fail "the last get: $(cat "$WORK/get"), $brought bytes of it by RDMA"
  before=$(read_bytes)
  perf get get --check --socket /tmp/peercache.sock
  jq -e '.wrong == 0' "$WORK/get" >/dev/null || fail "get: $(cat "$WORK/get")"
  brought=$(($(read_bytes) - before))
  [ "$(jq .hits "$WORK/get")" != $PAGES ] || [ "$brought" -lt $((PAGES * PAGE_BYTES)) ] || break
done
echo "round $round: $brought bytes of $PAGES pages by RDMA"
stop
kill $holder
wait $holder || { cat "$WORK/holder.log"; exit 1; }

echo "== more than the NUMA node has"
echo 16 >/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages
node --transport rdma --device-name rxe1
shows '.numa.memory.placement == "preferred" and .numa.memory.sampled_pages == {node: 16, elsewhere: 16, absent: 0}'
stop

echo "== CPUs of the other NUMA node only"
PEERCACHED_ON_0=$PEERCACHED
PEERCACHED=/tmp/on-node-0
printf '#!/bin/sh\nexec taskset -c 0-1 %s "$@"\n' "$PEERCACHED_ON_0" >"$PEERCACHED"
chmod +x "$PEERCACHED"
node --transport rdma --device-name rxe1
shows '.numa.threads.cpus == "" and (.numa.threads.why | contains("none of NUMA node 1'"'"'s CPUs (2-3)"))'
stop
