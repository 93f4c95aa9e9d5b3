# SGLang's host pools of every layout: their pages cross between nodes in both namespaces, byte for byte.
# Longest: 220 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_up
dataplane/python/test.sh -v --durations=0 -p no:cacheprovider python/tests/fabric/test_layouts.py
