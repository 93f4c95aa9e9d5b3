# shellcheck shell=bash
# Sourced after fabric.sh: ib_read_bw between the nodes; B reads from A.

# read_bw RAIL 4|6 PORT ARGS...: fails as the client does; its output is in $WORK/read-PORT.
read_bw() {
  local rail=$1 family=$2 port=$3 server status=0
  shift 3
  start A timeout 200 ib_read_bw -d "$(rail_device A "$rail")" -x "$(gid_index A "$rail" "$family")" -p "$port" -F "$@" \
    >"$WORK/read-$port.server" 2>&1
  server=$!
  wait_port A "$port" || { cat "$WORK/read-$port.server"; return 1; }
  on B timeout 200 ib_read_bw -d "$(rail_device B "$rail")" -x "$(gid_index B "$rail" "$family")" -p "$port" -F "$@" \
    "$(management_address A)" >"$WORK/read-$port" 2>&1 || status=$?
  [ $status -eq 0 ] || { cat "$WORK/read-$port"; kill $server 2>/dev/null; }
  wait $server || true
  return $status
}

# bandwidth PORT: the average, in words. perftest measures the processor's clock first, and gets 0 on a busy machine.
bandwidth() {
  awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+/ {print ($4 > 0 ? $4 " MiB/s" : "unknown speed")}' "$WORK/read-$1"
}
