# Longest: 280 s
# The C++ tests of whole nodes that read each other's pools, all in this process, on the two rails of node A.
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_tests node 'NodeFabricTest.*'
