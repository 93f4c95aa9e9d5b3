#!/usr/bin/env bash
# The index of a device's RoCEv2 GID that is an address; fails when it has none. Nothing but bash: a guest forks slowly.
#
#   hack/lab/soft-rdma/gid-index.sh DEVICE ADDRESS      rxe0 10.20.0.1; rxe0 fd00:20::1
#   . hack/lab/soft-rdma/gid-index.sh                   gid_index_of DEVICE ADDRESS, which leaves it in $gid_index
set -euo pipefail

# _gid_of ADDRESS: into $gid, as in sysfs: eight groups of four digits.
_gid_of() {
  local groups=() tail=()
  if [[ $1 != *:* ]]; then
    IFS=. read -ra groups <<<"$1"
    printf -v gid '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "${groups[@]}"
    return
  fi
  IFS=: read -ra groups <<<"${1%%::*}"
  if [[ $1 == *::* ]]; then
    IFS=: read -ra tail <<<"${1##*::}"
    while [ $((${#groups[@]} + ${#tail[@]})) -lt 8 ]; do groups+=(0); done
  fi
  groups+=("${tail[@]}")
  printf -v gid ':%04x' "${groups[@]/#/0x}"
  gid=${gid:1}
}

gid_index_of() {  # gid_index_of DEVICE ADDRESS
  local port=/sys/class/infiniband/$1/ports/1 file gid found type
  _gid_of "$2"
  for file in "$port"/gids/*; do
    gid_index=${file##*/}
    # The type of an entry that is not in use cannot be read.
    if read -r found <"$file" && [ "$found" = "$gid" ] &&
      read -r type 2>/dev/null <"$port/gid_attrs/types/$gid_index" && [ "$type" = 'RoCE v2' ]; then
      return
    fi
  done
  return 1
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  gid_index_of "$1" "$2"
  echo "$gid_index"
fi
