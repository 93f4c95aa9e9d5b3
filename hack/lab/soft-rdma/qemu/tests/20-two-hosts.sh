# Two machines with a kernel each and two rails between them: READs over each rail, IPv4 and IPv6, and gets of a node from
# the other over both, with every byte compared; all of that through loss and delay, too.
# Longest: 600 s
# shellcheck shell=bash
wires() {  # wires on|off NUMBER: the sockets' servers are those of the first machine
  local rail
  for rail in 0 1; do
    printf -- '-netdev stream,id=rail%d,server=%s,addr.type=unix,addr.path=%s ' $rail "$1" "$sockets/rail$rail"
    printf -- '-device virtio-net-pci,netdev=rail%d,romfile=,mac=52:54:00:00:0%d:0%d ' $rail $rail "$2"
  done
}

host() {  # host NUMBER on|off
  exec hack/lab/soft-rdma/qemu/run.sh --time 560 --work "$WORK" --qemu "$(wires "$2" "$1")" \
    bash -euo pipefail hack/lab/soft-rdma/qemu/guest/host.sh "$1"
}

sockets=$(mktemp -d)
first=''
trap '[ -z "$first" ] || kill $first 2>/dev/null || true; rm -rf "$sockets"' EXIT
host 1 on >"$WORK/host1" 2>&1 & first=$!
until [ -S "$sockets/rail0" ] && [ -S "$sockets/rail1" ]; do
  kill -0 $first || { cat "$WORK/host1"; exit 1; }
  sleep 0.1
done
(host 2 off) || { echo "host 1 said:"; cat "$WORK/host1"; exit 1; }
wait $first || { cat "$WORK/host1"; exit 1; }
first=''
