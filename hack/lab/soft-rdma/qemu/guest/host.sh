# shellcheck shell=bash
# In the guests of ../tests/20-two-hosts.sh, with 1 or 2 as argument: host 2 reads from host 1. They wait for one another
# by files in $WORK, which both see.
number=$1
BUILD=${PEERCACHE_BUILD:-dataplane/build/release}
PAGES=32 PAGE_BYTES=131072
MOST_ROUNDS=30  # of gets, until what is waited for has come about

for rail in 0 1; do
  ip addr add "10.20.$rail.$number/24" dev eth$rail
  ip addr add "fd00:$((20 + rail))::$number/64" dev eth$rail nodad
  ip link set eth$rail mtu 9000 up
  rdma link add rxe$rail type rxe netdev eth$rail
done

# step NAME RAIL ADDRESS-PREFIX: one set of READs.
step() {
  local name=$1 rail=$2 prefix=$3 index
  index=$(hack/lab/soft-rdma/await-port.sh "rxe$rail" "$prefix$number")
  local read_bw=(timeout 300 ib_read_bw -d "rxe$rail" -x "$index" -F -s 131072 -n 64)
  if [ "$number" = 1 ]; then
    "${read_bw[@]}" >"$WORK/$name.server" 2>&1 &
    until [ -n "$(ss -Hltn 'sport = :18515')" ]; do sleep 0.1; done
    touch "$WORK/$name.listens"
    wait $! || { cat "$WORK/$name.server"; exit 1; }
  else
    until [ -e "$WORK/$name.listens" ]; do sleep 0.1; done
    "${read_bw[@]}" 10.20.0.1 >"$WORK/$name.client" 2>&1 || { cat "$WORK/$name.client"; exit 1; }
    awk -v name="$name" '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+/ {print name ": " $4 " MiB/s"}' "$WORK/$name.client"
  fi
}

await_file() { until [ -e "$WORK/$1" ]; do sleep 0.1; done; }
failed() { echo "$*"; cat "$WORK/node$number.log"; exit 1; }
status() { curl -fs http://127.0.0.1:8080/v1/status; }
read_bytes() { status | jq ".transport.rails[$1].read_bytes"; }  # read_bytes RAIL
retries() { cat /sys/class/infiniband/rxe1/ports/1/hw_counters/completer_retry_err; }

# A node on both rails, that knows the other. Emulated machines are slow: what bounds calls, leases and silence is raised.
begin_node() {
  "$BUILD/peercached" --node-id "host$number" --pool-size 64Mi --huge-pages off --numa-node off --peer-port 31998 \
    --http-port 8080 --bind-addr 0.0.0.0 --advertise-addr "10.20.0.$number" --discovery-addr 10.20.0.1:31998 \
    --insecure-peers on \
    --socket /tmp/peercache.sock --transport rdma --device-name rxe0,rxe1 --dir-cache-ttl-ms 0 --promotion-percent 0 \
    --lease-ms 20000 --peer-timeout-ms 20000 --member-ttl-ms 60000 >"$WORK/node$number.log" 2>&1 &
  node=$!
  until [ "$(status | jq '[.members[] | select(.state == "active")] | length')" = 2 ]; do
    kill -0 $node || failed "the node of host $number has ended"
    sleep 0.2
  done
}

# perf set|get NAME [OPTION...]: all pages once; what it says is in $WORK/NAME
perf() {
  timeout 100 "$BUILD/bench/peercache-perf" "$1" --page-bytes $PAGE_BYTES --pages $PAGES --window $PAGES --batch 8 --seconds 0 \
    --socket /tmp/peercache.sock "${@:3}" >"$WORK/$2" || failed "$2: $(cat "$WORK/$2")"
}

# gets NAME MORE: gets of all pages of host 1, every byte compared, until each rail has brought a quarter of them, and MORE
# holds. The first get is served over TCP, while queue pairs are made.
gets() {
  local name=$1 more=$2 round rail before brought
  for rail in 0 1; do before[rail]=$(read_bytes $rail); done
  for ((round = 1; round <= MOST_ROUNDS; round++)); do
    perf get "$name" --check
    jq -e '.wrong == 0' "$WORK/$name" >/dev/null || failed "$name: $(cat "$WORK/$name")"
    for rail in 0 1; do brought[rail]=$(($(read_bytes $rail) - before[rail])); done
    if [ "$(jq .hits "$WORK/$name")" = $PAGES ] && [ "${brought[0]}" -ge $((PAGES * PAGE_BYTES / 4)) ] &&
      [ "${brought[1]}" -ge $((PAGES * PAGE_BYTES / 4)) ] && $more; then
      echo "$name: $round rounds of $PAGES pages, ${brought[0]} bytes by rail 0, ${brought[1]} by rail 1"
      return
    fi
  done
  failed "$name: after $((round - 1)) rounds ${brought[*]} bytes by the rails, the last one: $(cat "$WORK/$name")"
}

step rail0-IPv4 0 10.20.0.
step rail1-IPv4 1 10.20.1.
step rail0-IPv6 0 fd00:20::
step rail1-IPv6 1 fd00:21::
begin_node
if [ "$number" = 1 ]; then
  perf set set
  jq -e ".hits == $PAGES" "$WORK/set" >/dev/null || failed "set: $(cat "$WORK/set")"
  touch "$WORK/has-set"
  await_file has-got
else
  await_file has-set
  gets gets true
  touch "$WORK/has-got"
fi

# The frames of the answers: those of rail 1, not of rail 0, over which TCP goes.
[ "$number" = 2 ] || tc qdisc add dev eth1 root netem limit 10000 loss 0.5% delay 1ms
step rail1-loss 1 10.20.1.
if [ "$number" = 1 ]; then
  await_file has-got-again
else
  lost=$(retries)
  [ "$lost" -gt 0 ] || failed "nothing was lost"
  something_is_lost() { [ "$(retries)" -gt "$lost" ]; }
  gets gets-with-loss something_is_lost
  echo "$(($(retries) - lost)) retries"
  touch "$WORK/has-got-again"
fi
kill $node
wait $node || failed "the node of host $number ended with status $?"
