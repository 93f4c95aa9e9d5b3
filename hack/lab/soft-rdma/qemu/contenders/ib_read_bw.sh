# shellcheck shell=bash
# perftest: the reference, and as a contender the check of the method.

# contend PORT SIZE DEPTH QPS ITERATIONS: READs of SIZE bytes from this guest's rxe0 to itself, DEPTH in flight on each of
# QPS queue pairs; prints MiB/s of the guest's clock.
contend() {
  local speed
  speed=$(read_once "$@") || return
  # perftest compares the processor's clock with the kernel's; where others use the machine it makes no sense of them, and
  # calls all speeds 0.
  if [ "$speed" = 0.00 ]; then speed=$(speed_of_lengths "$@") || return; fi
  echo "$speed"
}

# As contend, by the guest's clock: what a long run takes more than a short one. All else that the two do takes as long in both.
speed_of_lengths() {
  local port=$1 size=$2 qps=$4 iterations=$5 times=32 short long
  short=$(microseconds read_once $((port + 1000)) "${@:2:3}" "$iterations") || return
  long=$(microseconds read_once $((port + 2000)) "${@:2:3}" $((times * iterations))) || return
  jq -n --argjson bytes $(((times - 1) * iterations * qps * size)) --argjson microseconds $((long - short)) \
    '$bytes / $microseconds * 1e6 / 1048576'
}

microseconds() {  # microseconds CMD...: that it takes
  local begin=${EPOCHREALTIME/[.,]/}
  "$@" >/dev/null || return
  echo $((${EPOCHREALTIME/[.,]/} - begin))
}

read_once() {
  local port=$1 size=$2 depth=$3 qps=$4 iterations=$5 index server
  index=$(hack/lab/soft-rdma/gid-index.sh rxe0 10.20.0.1)
  # -e: it sleeps until completions come. Polling would take the guest's one processor from the driver that works for it.
  local command=(timeout 200 ib_read_bw -d rxe0 -x "$index" -p "$port" -F -e -s "$size" -t "$depth" -o 16 -q "$qps" -n "$iterations")
  "${command[@]}" >"$WORK/ib_read_bw.server" 2>&1 &
  server=$!
  until [ -n "$(ss -Hltn "sport = :$port")" ]; do sleep 0.05; done
  "${command[@]}" 127.0.0.1 >"$WORK/ib_read_bw.client" 2>&1 || { cat "$WORK/ib_read_bw.client" >&2; return 1; }
  wait $server || { cat "$WORK/ib_read_bw.server" >&2; return 1; }
  awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+/ {print $4}' "$WORK/ib_read_bw.client"
}
