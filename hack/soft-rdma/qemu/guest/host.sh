# shellcheck shell=bash
# In the guests of ../tests/20-two-hosts.sh, with 1 or 2 as argument: host 2 reads from host 1. They wait for one another
# by files in $WORK, which both see.
number=$1

for rail in 0 1; do
  ip addr add "10.20.$rail.$number/24" dev eth$rail
  ip addr add "fd00:$((20 + rail))::$number/64" dev eth$rail nodad
  ip link set eth$rail mtu 9000 up
  rdma link add rxe$rail type rxe netdev eth$rail
done

# step NAME RAIL ADDRESS-PREFIX: one set of READs.
step() {
  local name=$1 rail=$2 prefix=$3 index
  index=$(hack/soft-rdma/await-port.sh "rxe$rail" "$prefix$number")
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

step rail0-IPv4 0 10.20.0.
step rail1-IPv4 1 10.20.1.
step rail0-IPv6 0 fd00:20::
step rail1-IPv6 1 fd00:21::
# The frames of the answers: those of rail 1, not of rail 0, over which TCP goes.
[ "$number" = 2 ] || tc qdisc add dev eth1 root netem limit 10000 loss 0.5% delay 1ms
step rail1-loss 1 10.20.1.
if [ "$number" = 2 ]; then
  retries=$(cat /sys/class/infiniband/rxe1/ports/1/hw_counters/completer_retry_err)
  echo "$retries retries"
  [ "$retries" -gt 0 ] || { echo "nothing was lost"; exit 1; }
fi
