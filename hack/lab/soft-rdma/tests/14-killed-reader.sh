# Longest: 150 s
# An engine whose own node, a process, is killed in the middle of READs. Both nodes are on the two rails of node A.
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_tests node 'KilledReaderFabricTest.*'
