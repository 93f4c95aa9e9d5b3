#!/usr/bin/env bash
# What the add-on `policies` runs: the image of kube-router, with the machine's iptables and ipset. Prints the folder.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
need iptables-nft ipset ldd

BIN=$(toolset_bin)
PROGRAM=$("$HERE/build.sh" --policies)/kube-router
OUT=$PEERCACHE_CACHE/policies/$({ echo "$BIN $(readlink -f "$PROGRAM")"; cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-64)

make_image() {  # make_image DIR
  local iptables ipset extensions library name files=() links=()
  step "the add-on policies: its image"
  iptables=$(readlink -f "$(command -v iptables-nft)") ipset=$(readlink -f "$(command -v ipset)")
  # iptables loads its matches and targets from there, by this path.
  extensions=$(dirname "$(dpkg -L iptables | grep '/libxt_set\.so$')")
  files=("$PROGRAM:/kube-router" "$iptables:/usr/sbin/xtables" "$ipset:/usr/sbin/ipset" "$extensions:$extensions")
  for name in iptables iptables-save iptables-restore; do links+=(-link "/usr/sbin/$name=xtables"); done
  for library in $(ldd "$iptables" "$ipset" | grep -oE '/[^ ]+\.so[^ ]*' | sort -u); do
    files+=("$(readlink -f "$library"):$library")
  done
  "$BIN/mkimage" -o "$1/kube-router.tar" -t docker.io/peercache/test-kube-router:cluster \
    -entrypoint /kube-router "${links[@]}" "${files[@]}"
}

made_once "$OUT" make_image
echo "$OUT"
