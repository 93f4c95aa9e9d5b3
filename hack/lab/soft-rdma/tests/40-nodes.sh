# Real nodes in both namespaces, with engines that check every byte, while rails and nodes fail.
# Longest: 260 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_up
dataplane/python/test.sh -v --durations=0 -p no:cacheprovider python/tests/fabric/test_nodes.py
