# Longest: 180 s
# The C++ tests of reads over queue pairs. Both ends are in this process, on the two rails of node A.
# shellcheck shell=bash
. hack/soft-rdma/fabric.sh
fabric_tests transport
