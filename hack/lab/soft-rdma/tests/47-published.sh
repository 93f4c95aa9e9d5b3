# The first table of docs/dev/benchmarks.md, "Published tables", whole and in small: one port, all ports, a pair of nodes for each
# port, and pages into the memory of a GPU, which is the host's here.
# At full length only: test-python runs the same commands, without RDMA.
# Longest: 240 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh

BUILD=${PEERCACHE_BUILD:-dataplane/build/release}
export PYTHONPATH=dataplane/python
echo guest >/proc/sys/kernel/hostname  # nodes are called after it
fabric_up
echo 512 >/sys/module/udmabuf/parameters/size_limit_mb  # what two threads with 128 pages of 1 MiB take
cc -O2 -shared -fPIC -o "$WORK/libcuda.so.1" dataplane/python/tests/integration/cuda_of_host_memory.c

published() {  # published NODE ARG...
  echo /usr/bin/python3 -m peercache_bench published original --build "$BUILD" --working-set 32m --duration 0.3 --warmup 0.1 \
    --devices "$(rail_device "$1" 0),$(rail_device "$1" 1)" --advertise-addr "$(management_address "$1")" "${@:2}"
}
bare_of() { echo "--bare=-F -x $(gid_index "$1" 0 4)"; }  # bare_of NODE: ib_read_bw's options there

# shellcheck disable=SC2046  # words
start A $(published A) "$(bare_of A)" >"$WORK/serves" 2>&1; server=$!
# shellcheck disable=SC2046
LD_LIBRARY_PATH=$WORK on B $(published B) "$(bare_of B)" --host "$(management_address A)" --out-dir "$WORK/report" ||
  { cat "$WORK/serves"; exit 1; }
wait $server || { cat "$WORK/serves"; exit 1; }
# ib_read_bw may say 0.00: perftest makes no sense of the guest's clock where others use the machine.
jq -e '[.cells[] | select(.row | startswith("bare") | not) | .ours > 0] | length == 5 and all' \
  "$WORK/report/published-original.json" >/dev/null || { jq .cells "$WORK/report/published-original.json"; exit 1; }
