# shellcheck shell=bash
# perftest: the reference, and as a contender the check of the method.

# contend PORT SIZE DEPTH QPS ITERATIONS: READs of SIZE bytes from this guest's rxe0 to itself, DEPTH in flight on each of
# QPS queue pairs; prints MiB/s of the guest's clock.
contend() {
  local try speed
  # perftest measures the processor's clock first; on a busy machine it gets 0, and all that follows from it is 0.
  for try in {0..9}; do
    speed=$(read_once $(($1 + 1000 * try)) "${@:2}") || return
    if [ "$speed" != 0.00 ]; then echo "$speed" && return; fi
  done
  echo "ib_read_bw has measured 0 MiB/s ten times: run it on a machine that is less busy" >&2
  return 1
}

read_once() {
  local port=$1 size=$2 depth=$3 qps=$4 iterations=$5 index server
  index=$(hack/soft-rdma/gid-index.sh rxe0 10.20.0.1)
  # -e: it sleeps until completions come. Polling would take the guest's one processor from the driver that works for it.
  local command=(timeout 200 ib_read_bw -d rxe0 -x "$index" -p "$port" -F -e -s "$size" -t "$depth" -o 16 -q "$qps" -n "$iterations")
  "${command[@]}" >"$WORK/ib_read_bw.server" 2>&1 &
  server=$!
  until [ -n "$(ss -Hltn "sport = :$port")" ]; do sleep 0.05; done
  "${command[@]}" 127.0.0.1 >"$WORK/ib_read_bw.client" 2>&1 || { cat "$WORK/ib_read_bw.client" >&2; return 1; }
  wait $server || { cat "$WORK/ib_read_bw.server" >&2; return 1; }
  awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+/ {print $4}' "$WORK/ib_read_bw.client"
}
