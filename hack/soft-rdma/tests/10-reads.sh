# Longest: 450 s
# The C++ tests that need devices: reads over queue pairs, and whole nodes that read each other's pools. Both ends are in
# this process, on the two rails of node A.
# shellcheck shell=bash
. hack/soft-rdma/fabric.sh
fabric_up
PEERCACHE_TEST_RAILS=$(rail_device A 0),$(rail_device A 1)
export PEERCACHE_TEST_RAILS
for tests in transport node; do
  on A "dataplane/build/release/${tests}_fabric_test" --gtest_brief=1
done
