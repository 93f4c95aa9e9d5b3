# shellcheck shell=bash
# In the guest of ../ratio.sh: CONTENDER ROUNDS "SIZE:DEPTH:QPS..."; appends to $WORK/rounds a line for each measurement:
# SIZE DEPTH QPS MiB/s-of-the-reference MiB/s-of-the-contender. They take turns, so that nothing favours one of them.
contender=$1 rounds=$2 cases=$3
BYTES=$((32 << 20))  # of one measurement

measure() {  # measure NAME ARGS...: in a shell of its own, as each contender defines the same function
  (
    # shellcheck disable=SC1090
    . "hack/lab/soft-rdma/qemu/contenders/$1.sh"
    shift
    contend "$@"
  )
}

. hack/lab/soft-rdma/qemu/guest/rail.sh

port=18515
for ((round = 1; round <= rounds; round++)); do
  for case in $cases; do
    IFS=: read -r size depth qps <<<"$case"
    iterations=$((BYTES / size / qps))
    # Each its own port: the one before may still be in use.
    port=$((port + 2))
    reference=$(measure ib_read_bw $port "$size" "$depth" "$qps" $iterations)
    other=$(measure "$contender" $((port + 1)) "$size" "$depth" "$qps" $iterations)
    echo "$size $depth $qps $reference $other" >>"$WORK/rounds"
    echo "round $round of $rounds: READs of $size bytes, $depth deep, $qps queue pairs: $reference and $other"
  done
done
