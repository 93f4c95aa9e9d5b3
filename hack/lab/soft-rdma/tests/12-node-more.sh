# Longest: 270 s
# As 11-node-reads.sh, all but those, 10-reads.sh's, 13-stress.sh's and 14-killed-reader.sh's: nodes that read each other's shards, and engines' dma-bufs.
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
fabric_tests node '-NodeFabricTest.*:LinksFabricTest.*:StressFabricTest.*:KilledReaderFabricTest.*'
