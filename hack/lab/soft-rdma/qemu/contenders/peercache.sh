# shellcheck shell=bash
# Our READs of pages, as nodes do them, with nothing else around them.

contend() {  # as in ib_read_bw.sh
  local port=$1 size=$2 depth=$3 iterations=$5 server
  local command=(timeout 200 "${PEERCACHE_BUILD:-dataplane/build/release}/bench/peercache-perf" rdma-read
    --devices rxe0 --port "$port" --bytes "$size" --batch "$depth" --reads "$iterations")
  "${command[@]}" >"$WORK/peercache.server" 2>&1 &
  server=$!
  until [ -n "$(ss -Hltn "sport = :$port")" ]; do sleep 0.05; done
  "${command[@]}" --host 127.0.0.1 >"$WORK/peercache.client" 2>"$WORK/peercache.messages" ||
    { cat "$WORK/peercache.messages" >&2; return 1; }
  wait $server || { cat "$WORK/peercache.server" >&2; return 1; }
  # The last line is the result; those before it are the log.
  tail -n 1 "$WORK/peercache.client" | jq '.bytes / .seconds / 1048576'
}
