# shellcheck shell=bash
# Whole GETs of an engine: through the socket of its node, where the pages are looked up, most of them at the other
# node, and read from there. Locations are not remembered and pages are not kept, so each GET does all of it. A call
# takes most of a second of this slow guest, so what bounds calls and leases is raised.

contend() {  # as in ib_read_bw.sh
  local port=$1 size=$2 depth=$3 iterations=$5 build=${PEERCACHE_BUILD:-dataplane/build/release} name sockets before after nodes=()
  sockets=$(mktemp -d)  # of the guest: $WORK is a folder of the host, which takes no sockets
  local pages=(--page-bytes "$size" --pages "$iterations" --window "$iterations" --batch "$depth" --seconds 0)
  for name in holder:128Mi reader:8Mi; do
    "$build/peercached" --node-id "${name%:*}" --pool-size "${name#*:}" --peer-port $((port + ${#nodes[@]})) \
      --http-port $((port + 100 + ${#nodes[@]})) --bind-addr 10.20.0.1 --discovery-addr "10.20.0.1:$port" \
      --insecure-peers on --map-pools off \
      --socket "$sockets/${name%:*}.sock" --transport rdma --device-name rxe0 --numa-node off --log-level warn \
      --dir-cache-ttl-ms 0 --promotion-percent 0 --lease-ms 20000 --peer-timeout-ms 20000 >"$WORK/${name%:*}.log" 2>&1 &
    nodes+=($!)
  done
  for name in 0 1; do
    until curl -fs -o /dev/null "http://10.20.0.1:$((port + 100 + name))/readyz"; do
      kill -0 "${nodes[$name]}" || { cat "$WORK"/{holder,reader}.log >&2; return 1; }
      sleep 0.1
    done
  done
  local perf=(timeout 200 "$build/bench/peercache-perf")
  "${perf[@]}" set "${pages[@]}" --socket "$sockets/holder.sock" >"$WORK/set"
  # The first call waits for queue pairs only so long, and is served over TCP then.
  "${perf[@]}" get "${pages[@]}" --socket "$sockets/reader.sock" >"$WORK/first"
  before=$(read_bytes $((port + 101)))
  "${perf[@]}" get "${pages[@]}" --warmup 0.01 --socket "$sockets/reader.sock" >"$WORK/get"
  after=$(read_bytes $((port + 101)))
  kill "${nodes[@]}"
  wait "${nodes[@]}"
  jq -e --argjson pages "$iterations" '.hits == $pages' "$WORK/get" >/dev/null || { cat "$WORK/get" >&2; return 1; }
  # Of the warm-up and the measurement.
  [ $((after - before)) -ge $((2 * size * iterations)) ] || { echo "only $((after - before)) bytes came by RDMA" >&2; return 1; }
  jq '.gb_per_s * 1e9 / 1048576' "$WORK/get"
}

read_bytes() { curl -fs "http://10.20.0.1:$1/v1/status" | jq '.transport.rails[0].read_bytes'; }
