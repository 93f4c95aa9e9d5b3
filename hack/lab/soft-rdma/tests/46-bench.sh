# The commands of docs/dev/rdma.md, "Measuring on your hosts", as they are there: READs alone, whole gets of engines between two
# hosts over both rails with every byte compared.
# At full length only: test-python runs the same commands, without RDMA.
# Longest: 200 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh

BUILD=${PEERCACHE_BUILD:-dataplane/build/release}
export PYTHONPATH=dataplane/python
bench_on() { on "$1" /usr/bin/python3 -m peercache_bench "${@:2}" --build "$BUILD"; }  # bench_on NODE ARG...
start_bench() { start "$1" /usr/bin/python3 -m peercache_bench "${@:2}" --build "$BUILD"; }

received() { on B cat "/sys/class/net/rail$1/statistics/rx_bytes"; }
snapshot() { before=("$(received 0)" "$(received 1)"); }
both_rails() {  # both_rails BYTES: so many at least have come to B over each since the snapshot
  local rail moved
  for rail in 0 1; do
    moved=$(($(received $rail) - before[rail]))
    echo "rail $rail: $moved bytes"
    [ $moved -ge "$1" ] || { echo "these are too few"; exit 1; }
  done
}

echo guest >/proc/sys/kernel/hostname  # nodes are called after it
fabric_up
RAILS_OF_A=$(rail_device A 0),$(rail_device A 1)
RAILS_OF_B=$(rail_device B 0),$(rail_device B 1)

echo "== READs alone"
snapshot
start_bench A read --devices "$RAILS_OF_A" --page-size 64k --batch-size 16 >"$WORK/read.server" 2>&1; server=$!
wait_port A 18515
bench_on B read "$(management_address A)" --devices "$RAILS_OF_B" --page-size 64k --batch-size 16 --reads 160 |
  tee "$WORK/read"
wait $server || { cat "$WORK/read.server"; exit 1; }
grep -qE '^ +65536 +160 +16 +2 ' "$WORK/read"
both_rails $((65536 * 40))

echo "== the ladder"
# Eight threads with more READs than that at once overrun emulated rails, which then run out of tries where others use the machine.
LADDER=(--pool 4m --bytes 1m --batch-size 2)
bare_of() { echo "--bare=-F -x $(gid_index "$1" 0 4)"; }  # bare_of NODE: ib_read_bw's options there
start_bench A ladder --devices "$RAILS_OF_A" "${LADDER[@]}" "$(bare_of A)" >"$WORK/ladder.server" 2>&1; server=$!
bench_on B ladder --devices "$RAILS_OF_B" "${LADDER[@]}" "$(bare_of B)" "$(management_address A)" | tee "$WORK/ladder"
wait $server || { cat "$WORK/ladder.server"; exit 1; }
# A step's last columns: GB/s, of the ports, ib_read_bw, p50, p99. Where others use the machine GB/s may round to 0.00: what
# tells that READs came is how long they took. ib_read_bw stands beside the first four, and may say 0.00, too: perftest makes
# no sense of the guest's clock there.
sed '/^$/,$d' "$WORK/ladder" >"$WORK/steps"
awk 'NR > 1 && !($(NF - 1) > 0) { print "brought nothing: " $0; exit 1 }
  NR > 1 && ($(NF - 2) ~ /^[0-9]+\.[0-9]+$/) != (NR <= 5) { print "ib_read_bw: " $0; exit 1 }' "$WORK/steps"
[ "$(wc -l <"$WORK/steps")" = 17 ]
grep -q '^without pauses between batches ' "$WORK/steps"
grep -q '^with rdma-ece ' "$WORK/steps"
# As many steps, each with what bounds it.
[ "$(sed '1,/^what bounds/d' "$WORK/ladder" | grep -c '  .')" = 16 ]

PAGES=(--page-size 64k --working-set 64)
address=$(management_address A):31998
gets() {  # gets NAME ARG...: of an engine of B, from a node of A; every byte is right, and no page is missed
  local name=$1 server
  start_bench A serve --discovery-addr "$address" --advertise-addr "$(management_address A)" --protocol rdma \
    --devices "$RAILS_OF_A" "${PAGES[@]}" --readers 1 >"$WORK/serve" 2>&1; server=$!
  until grep -q '^ready at' "$WORK/serve"; do
    kill -0 $server 2>/dev/null || { cat "$WORK/serve"; exit 1; }
    sleep 0.2
  done
  bench_on B drive --discovery-addr "$address" --advertise-addr "$(management_address B)" --protocol rdma \
    --devices "$RAILS_OF_B" "${PAGES[@]}" --batch-size 32 --concurrencies 1 --processes 1 --duration 0.5 --warmup 0.1 --check \
    --out-dir "$WORK/$name" "${@:2}"
  wait $server || { cat "$WORK/serve"; exit 1; }
  jq -e '[.results[].figures | .checked and .wrong == 0 and .hit_ratio == 1] | length > 0 and all' "$WORK/$name/drive.json" \
    >/dev/null || { jq .results "$WORK/$name/drive.json"; exit 1; }
}

echo "== gets of engines"
snapshot
gets drive
both_rails $((1 << 20))

echo "== gets into memory of a GPU, which these rails do not register: the node copies"
cc -O2 -shared -fPIC -o "$WORK/libcuda.so.1" dataplane/python/tests/integration/cuda_of_host_memory.c
LD_LIBRARY_PATH=$WORK gets gpu --gpu 2>"$WORK/gpu.said" || { cat "$WORK/gpu.said"; exit 1; }
grep -F 'pages come into the GPU by copies alone' "$WORK/gpu.said"
