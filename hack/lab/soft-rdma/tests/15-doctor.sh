# What peercached doctor says of real devices: the GID of each address, and the fault and its remedy when the address, the
# carrier, the MTU or the memory limit is missing; and that a node says the same of the memory limit.
# Longest: 60 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh

PEERCACHED=$(realpath "${PEERCACHED:-dataplane/build/release/peercached}")
QUIET=(--json --http off --huge-pages off --pool-size 64Mi)
asked=(--transport rdma --device-name "rxe_a0,rxe_a1")

# doctor EXPECTED_STATUS ARG...: on node A; its JSON is in $WORK/report
doctor() {
  local wanted=$1 status=0
  shift
  on A "$PEERCACHED" doctor "${QUIET[@]}" "${asked[@]}" "$@" >"$WORK/report" || status=$?
  [ $status = "$wanted" ] || { echo "doctor $*: status $status instead of $wanted"; cat "$WORK/report"; exit 1; }
}

# finding SUBJECT TEXT: the last report has it
finding() {
  jq -e --arg subject "$1" --arg text "$2" \
    'any(.findings[]; .subject == $subject and (.grade + ": " + .text | contains($text)))' "$WORK/report" >/dev/null ||
    { echo "no finding \"$2\" about $1 in:"; jq -r '.findings[] | [.grade, .subject, .text] | @tsv' "$WORK/report"; exit 1; }
}

# shows FILTER: it is true of the last report
shows() { jq -e "$1" "$WORK/report" >/dev/null || { echo "the report does not have $1:"; cat "$WORK/report"; exit 1; }; }

fabric_up
doctor 0
finding "rxe_a0 port 1" "ok: GID $(gid_index A 0 4) ($(rail_address A 0), RoCEv2, rail0)"
finding "rxe_a1 port 1" "ok: GID $(gid_index A 1 4) ($(rail_address A 1), RoCEv2, rail1)"
shows '[.devices[] | .device + " " + .function] == ["rxe_a0 software", "rxe_a1 software"]'
shows '.devices[0].dmabuf == "no" and .devices[0].opens == "yes"'
shows '.ports[0].mtu == "4096/4096" and .ports[0].state == "ACTIVE"'
shows '(.limits[0].queue_pairs | tonumber) > 1000'

echo "== by preference"
doctor 0 --rdma-gid ipv6
finding "rxe_a0 port 1" "ok: GID $(gid_index A 0 6) ($(rail_address6 A 0), RoCEv2, rail0)"
doctor 2 --rdma-gid 192.0.2.1
finding "rxe_a0 port 1" "fault: rxe_a0 port 1: none of its usable GIDs is 192.0.2.1"

echo "== paging on demand, which these devices do not have"
doctor 1 --rdma-odp on
finding rxe_a0 "warning: rdma-odp is on, but it has no on-demand paging (general_caps 0x0): memory is locked"
shows '[.limits[]["paging_on_demand"]] == ["no", "no"]'

echo "== without a list, devices in software are left alone"
asked=()
doctor 0
finding transport "note: pages travel over TCP"
asked=(--transport rdma --device-name "rxe_a0,rxe_a1")

echo "== no carrier"
rail_down B 1
port_becomes "port at its other end" A rxe_a1 "1: DOWN"
doctor 2
finding "rxe_a1 port 1" "fault: rxe_a1 port 1: the port is DOWN"
rail_up B 1
rail_ready A 1
doctor 0

echo "== no address"
ip -n A addr flush dev rail1
doctor 2
finding "rxe_a1 port 1" "give the interface an IP address"

echo "== small frames"
ip -n A link set rail0 mtu 1500
asked=(--transport rdma --device-name rxe_a0)
doctor 1
finding "rxe_a0 port 1" "warning: rxe_a0 port 1: rail0's MTU of 1500 limits RDMA packets to 1024 of 4096 bytes"
ip -n A link set rail0 mtu 9000

echo "== little memory may be locked"
ip -n A addr add "$(rail_address A 1)/24" dev rail1
ip -n A addr add "$(rail_address6 A 1)/64" dev rail1 nodad
rail_ready A 1
asked=(--transport rdma --device-name "rxe_a0,rxe_a1")
# Two pools of 64 MiB, with their headers, do not fit into 100 MiB; one does.
NEED="RLIMIT_MEMLOCK is 100Mi, pool with headers locks 130Mi (65Mi on each of 2 rails): set it to unlimited"
# shellcheck disable=SC2016  # expands in the inner shell
LIMITED=(bash -c 'ulimit -l 102400; exec "$@"' limited)
AS_USER=(setpriv --reuid=65534 --regid=65534 --clear-groups)
NODE=(--pool-size 64Mi --huge-pages off --bind-addr 127.0.0.1 --http-port 8080 --socket /tmp/memlock.sock)

# says FILE TEXT
says() { grep -qF "$2" "$1" || { echo "nobody says \"$2\":"; cat "$1"; exit 1; }; }

# refused WHO...: neither the doctor nor the node lets this process go on
refused() {
  local status=0
  on A "${LIMITED[@]}" "$@" "$PEERCACHED" doctor "${QUIET[@]}" "${asked[@]}" >"$WORK/report" || status=$?
  [ $status = 2 ] || { echo "doctor by $*: status $status"; cat "$WORK/report"; exit 1; }
  finding memlock "fault: $NEED"
  status=0
  on A "${LIMITED[@]}" "$@" "$PEERCACHED" "${NODE[@]}" "${asked[@]}" >"$WORK/log" 2>&1 || status=$?
  [ $status = 1 ] || { echo "a node by $*: status $status"; cat "$WORK/log"; exit 1; }
  says "$WORK/log" "transport: $NEED"
  rm -f /tmp/memlock.sock
}

# runs ARG...: a node of user 65534 starts; its status is in $WORK/status
runs() {
  start A "${LIMITED[@]}" "${AS_USER[@]}" "$PEERCACHED" "${NODE[@]}" "$@" >"$WORK/log" 2>&1
  node=$!
  until on A curl -sf -o "$WORK/status" http://127.0.0.1:8080/v1/status; do
    kill -0 $node || { cat "$WORK/log"; exit 1; }
    sleep 0.1
  done
  kill $node
  wait $node || { echo "the node ended with status $?"; cat "$WORK/log"; exit 1; }
}

refused "${AS_USER[@]}"
refused setpriv --bounding-set=-ipc_lock
finding memlock "or add the capability IPC_LOCK"
runs --device-name rxe_a0,rxe_a1
says "$WORK/status" "TCP, as RDMA cannot be used: $NEED"
runs --transport rdma --device-name rxe_a0
jq -e '.transport.rails[0].up' "$WORK/status" >/dev/null || { cat "$WORK/status"; exit 1; }
