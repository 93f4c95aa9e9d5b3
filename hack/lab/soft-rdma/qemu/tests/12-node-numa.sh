# A node on a machine of two NUMA nodes with a NIC each: its pool and its threads are where its rail is, the kernel says
# so too, and where that cannot be had it says why. It reads another node's pages over that rail, every byte compared.
# Longest: 450 s
# shellcheck shell=bash
. hack/lab/soft-rdma/qemu/numa-machine.sh
hack/lab/soft-rdma/qemu/run.sh --time 430 --cpus 4 --memory 2G --work "$WORK" --qemu "$numa_machine" \
  bash -euo pipefail hack/lab/soft-rdma/qemu/guest/node-numa.sh
