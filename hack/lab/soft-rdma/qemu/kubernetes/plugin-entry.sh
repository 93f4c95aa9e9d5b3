#!/bin/sh
# Starts k8s-rdma-shared-dev-plugin where RDMA devices are software. It looks for a port's device in the folder
# `infiniband` of the PCI device, as drivers of hardware make one; an rxe device has no parent, so there is none. Here this
# container's view of /sys/bus/pci/devices gets that folder, and all else in there is the kernel's.
set -eu
found=''
for device in /sys/bus/pci/devices/*; do found="$found $(readlink -f "$device")"; done
mount -t tmpfs pci /sys/bus/pci/devices
for path in $found; do
  here=/sys/bus/pci/devices/$(basename "$path")
  if [ ! -d "$path/net" ]; then
    ln -s "$path" "$here"
    continue
  fi
  mkdir "$here"
  for entry in "$path"/*; do ln -s "$entry" "$here/"; done
  for device in /sys/class/infiniband/*; do
    interface=$(cat "$device/ports/1/gid_attrs/ndevs/0")
    [ ! -d "$path/net/$interface" ] || mkdir -p "$here/infiniband/$(basename "$device")"
  done
done
exec /k8s-rdma-shared-dp
