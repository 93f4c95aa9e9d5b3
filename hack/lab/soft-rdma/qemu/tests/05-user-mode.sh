# In user-mode guests, as the quick tests, what would make these longer: that the faults of fabric.sh do what they are meant
# to, and lookups both ways.
# Longest: 300 s
# shellcheck shell=bash
for script in faults lookups; do
  hack/lab/soft-rdma/run.sh --time 150 --work "$WORK/$script" bash -euo pipefail "hack/lab/soft-rdma/qemu/guest/$script.sh"
done
