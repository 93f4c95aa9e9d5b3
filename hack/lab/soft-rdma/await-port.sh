#!/usr/bin/env bash
# Waits until a device's port is active, since the link of a NIC takes a moment, and has a GID for each address.
#
#   hack/lab/soft-rdma/await-port.sh DEVICE ADDRESS...      prints the GIDs' indexes
. "$(dirname "${BASH_SOURCE[0]}")/gid-index.sh"

ready() {  # ready DEVICE ADDRESS...: their indexes are in $indexes
  local device=$1 state address
  read -r state <"/sys/class/infiniband/$device/ports/1/state" && [[ $state == *ACTIVE* ]] || return
  shift
  indexes=()
  for address in "$@"; do
    gid_index_of "$device" "$address" || return
    indexes+=("$gid_index")
  done
}

for _ in {1..200}; do
  if ready "$@"; then
    printf '%s\n' "${indexes[@]}"
    exit
  fi
  sleep 0.1
done
echo "port 1 of $1 is not active with a GID for ${*:2} after 20 s: $(rdma link show "$1/1"); $(ip -br addr)" >&2
exit 1
