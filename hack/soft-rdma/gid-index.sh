#!/usr/bin/env bash
# The index of a device's RoCEv2 GID that is an address; fails when it has none.
#
#   hack/soft-rdma/gid-index.sh DEVICE ADDRESS      rxe0 10.20.0.1; rxe0 fd00:20::1
set -euo pipefail

# As in sysfs: eight groups of four digits.
gid_of() {
  local groups=() tail=()
  if [[ $1 != *:* ]]; then
    IFS=. read -ra groups <<<"$1"
    printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "${groups[@]}"
    return
  fi
  IFS=: read -ra groups <<<"${1%%::*}"
  if [[ $1 == *::* ]]; then
    IFS=: read -ra tail <<<"${1##*::}"
    while [ $((${#groups[@]} + ${#tail[@]})) -lt 8 ]; do groups+=(0); done
  fi
  groups+=("${tail[@]}")
  printf '%04x' "0x${groups[0]}"
  printf ':%04x' "${groups[@]/#/0x}" | cut -c6-
}

port=/sys/class/infiniband/$1/ports/1
gid=$(gid_of "$2")
for file in "$port"/gids/*; do
  # The type of an entry that is not in use cannot be read.
  if [ "$(<"$file")" = "$gid" ] && [ "$(cat "$port/gid_attrs/types/${file##*/}" 2>/dev/null)" = 'RoCE v2' ]; then
    echo "${file##*/}"
    exit
  fi
done
exit 1
