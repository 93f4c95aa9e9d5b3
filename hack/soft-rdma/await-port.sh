#!/usr/bin/env bash
# Waits until a device's port is active, since the link of a NIC takes a moment, and has a GID that is the address.
#
#   hack/soft-rdma/await-port.sh DEVICE ADDRESS      prints the GID's index
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for _ in {1..200}; do
  if [[ $(cat "/sys/class/infiniband/$1/ports/1/state") == *ACTIVE* ]] && "$here/gid-index.sh" "$1" "$2"; then exit; fi
  sleep 0.1
done
echo "port 1 of $1 is not active with GID $2 after 20 s: $(rdma link show "$1/1"); $(ip -br addr)" >&2
exit 1
