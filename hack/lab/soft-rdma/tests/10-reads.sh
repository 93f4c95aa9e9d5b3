# Longest: 230 s
# The C++ tests of reads over queue pairs, and of links to a node. Both ends are in this process, on the two rails of node A.
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_tests transport
on A dataplane/build/release/node_fabric_test --gtest_filter='LinksFabricTest.*'
