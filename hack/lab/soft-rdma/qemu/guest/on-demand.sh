# shellcheck shell=bash
# In the guest of ../tests/30-on-demand.sh.
BUILD=${PEERCACHE_BUILD:-dataplane/build/release}
PORT=31000 PAGE=131072 PAGES=256
LOCKED_KIB=64  # that the user may lock: containers' usual limit
SOCKETS=/tmp/sockets

fail() { echo "$*"; cat "$WORK"/*.log 2>/dev/null; exit 1; }

as_nobody() { exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all prlimit --memlock=$((LOCKED_KIB << 10)) "$@"; }

node() {  # node NAME NUMBER OPTION...: in place of the shell
  as_nobody "$BUILD/peercached" --node-id "$1" --pool-size 64Mi --peer-port $((PORT + $2)) --http-port $((PORT + 100 + $2)) \
    --bind-addr 10.20.0.1 --discovery-addr 10.20.0.1:$PORT --insecure-peers on --socket "$SOCKETS/$1.sock" --map-pools off --transport rdma --device-name rxe0 \
    --numa-node off --dir-cache-ttl-ms 0 --promotion-percent 0 --lease-ms 20000 --peer-timeout-ms 20000 "${@:3}" >"$WORK/$1.log" 2>&1
}

status() { curl -fs "http://10.20.0.1:$((PORT + 100 + $1))/v1/status"; }

perf() { timeout 100 "$BUILD/bench/peercache-perf" "$1" --page-bytes $PAGE --pages $PAGES --window $PAGES --batch 32 --seconds 0 "${@:2}"; }

. hack/lab/soft-rdma/qemu/guest/rail.sh
chmod 666 /dev/infiniband/uverbs0
mkdir -m 777 $SOCKETS
uname -r

echo "== without it the user may not lock that much"
(node locks 9) && fail "a node has locked 64 MiB of $LOCKED_KIB KiB"
grep -i memlock "$WORK/locks.log" || fail "the node does not say why"

echo "== with it"
node holder 0 --rdma-odp on & holder=$!
node reader 1 --rdma-odp on & reader=$!
for number in 0 1; do
  until status $number >/dev/null; do
    kill -0 $holder $reader || fail "a node has ended"
    sleep 0.1
  done
  status $number | jq -e '.transport.rails[0].memory == "on demand"' >/dev/null || fail "$(status $number | jq .transport)"
done
perf set --socket $SOCKETS/holder.sock >"$WORK/set"
# The first call waits for queue pairs only so long, and is served over TCP then.
perf get --check --socket $SOCKETS/reader.sock >"$WORK/first"
before=$(status 1 | jq '.transport.rails[0].read_bytes')
perf get --check --socket $SOCKETS/reader.sock >"$WORK/get"
after=$(status 1 | jq '.transport.rails[0].read_bytes')
[ "$(jq .wrong "$WORK/get")" = 0 ] || fail "wrong bytes: $(cat "$WORK/get")"
hits=$(jq .hits "$WORK/get") stale=$(curl -fs "http://10.20.0.1:$((PORT + 101))/metrics" | awk '/^peercache_read_misses_total.*"stale"/ {print $2}')
# Linux up to 7.3 at least drops the offset within a page where rxe copies from memory that is paged on demand
# (__rxe_odp_mr_copy): what comes is not the page that was asked for, which its header shows.
case $hits in
  "$PAGES") echo "every page has come" ;;
  0)
    [ "$stale" -ge $PAGES ] || fail "$(cat "$WORK/get")"
    echo "no page has come: this rxe reads at the wrong offset, and the nodes notice"
    ;;
  *) fail "$(cat "$WORK/get")" ;;
esac
[ $((after - before)) -ge $((PAGE * PAGES)) ] || fail "only $((after - before)) bytes came by RDMA"
for node in $holder $reader; do
  locked=$(awk '$1 == "VmLck:" || $1 == "VmPin:" {sum += $2} END {print sum}' "/proc/$node/status")
  [ "$locked" -le $LOCKED_KIB ] || fail "$locked KiB are locked or pinned"
done
echo "== $((after - before)) bytes by RDMA, $locked KiB locked or pinned"
kill $holder $reader
for node in $holder $reader; do wait "$node" || fail "a node ended with status $?"; done
