# On-demand paging, with a kernel whose rxe has it: two nodes of a user who may lock nothing register pool and host pool all
# the same, READs bring them in, and nothing is locked or pinned. No wrong byte is given to an engine, although rxe reads some.
# Longest: 300 s
# shellcheck shell=bash
hack/lab/soft-rdma/qemu/run.sh --time 280 --memory 1G --kernel backports --work "$WORK" \
  bash -euo pipefail hack/lab/soft-rdma/qemu/guest/on-demand.sh
