# Real nodes in both namespaces, as 40-nodes.sh, while addresses change and devices are taken away.
# Longest: 290 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_up
dataplane/python/test.sh -v --durations=0 -p no:cacheprovider python/tests/fabric/test_changes.py
