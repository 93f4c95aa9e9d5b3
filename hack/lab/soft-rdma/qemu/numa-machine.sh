# Options of QEMU for a machine of two NUMA nodes, each with two processors, 1 GiB and a NIC.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the caller's
numa_machine='
  -object memory-backend-ram,id=m0,size=1024M -object memory-backend-ram,id=m1,size=1024M
  -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa dist,src=0,dst=1,val=21
  -device pxb-pcie,id=bus0,bus_nr=64,bus=pcie.0,numa_node=0 -device pxb-pcie,id=bus1,bus_nr=128,bus=pcie.0,numa_node=1
  -device pcie-root-port,id=port0,bus=bus0,chassis=1,slot=1 -device pcie-root-port,id=port1,bus=bus1,chassis=2,slot=2
  -netdev user,id=net0,restrict=on -device e1000e,netdev=net0,bus=port0,romfile=
  -netdev user,id=net1,restrict=on -device e1000e,netdev=net1,bus=port1,romfile=
'
numa_machine=${numa_machine//$'\n'/ }
