# Real nodes in both namespaces under readers, writers and evictions, while they are stopped, killed and asked to leave: no
# wrong byte, RDMA_STRESS_SECONDS (5) with checksums off and as long with all. With much more, straight in a guest:
#   RDMA_STRESS_SECONDS=300 hack/lab/soft-rdma/run.sh --time 900 bash -euo pipefail hack/lab/soft-rdma/tests/13-stress.sh
# Longest: 150 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_tests node 'StressFabricTest.*'
