# A machine of two NUMA nodes with a NIC each: devices and huge pages are on the node they should be on, and READs work
# with memory of the device's own node.
# Longest: 600 s
# shellcheck shell=bash
. hack/lab/soft-rdma/qemu/numa-machine.sh
hack/lab/soft-rdma/qemu/run.sh --time 560 --cpus 4 --memory 2G --work "$WORK" --qemu "$numa_machine" \
  bash -euo pipefail hack/lab/soft-rdma/qemu/guest/numa.sh
