# One-sided READs of perftest and librdmacm's connections between the nodes: each rail by itself over IPv4 and IPv6, then
# both at once. The interfaces' counters tell that the bytes went over the wire.
# Longest: 120 s
# shellcheck shell=bash
. hack/lab/soft-rdma/fabric.sh
. hack/lab/soft-rdma/perftest.sh

received() { on B cat "/sys/class/net/rail$1/statistics/rx_bytes"; }

fabric_up
for rail in 0 1; do
  other=$((1 - rail))
  for family in 4 6; do
    before=$(received $rail) quiet=$(received $other)
    read_bw $rail $family 18515 -s 131072 -n 256 || { echo "READs over rail $rail, IPv$family, failed"; exit 1; }
    moved=$(($(received $rail) - before)) strayed=$(($(received $other) - quiet))
    echo "rail $rail IPv$family: $(bandwidth 18515), $moved bytes over the wire, $strayed over the other rail"
    [ "$moved" -ge $((131072 * 256)) ] || { echo "they did not go over the wire"; exit 1; }
    [ "$strayed" -lt 65536 ] || { echo "they went over the other rail"; exit 1; }
  done
done

read_bw 0 4 18515 -s 131072 -n 256 & first=$!
read_bw 1 6 18516 -s 131072 -n 256 & second=$!
wait $first || { echo "READs over rail 0, beside those over rail 1, failed"; exit 1; }
wait $second || { echo "READs over rail 1, beside those over rail 0, failed"; exit 1; }
echo "both rails at once: $(bandwidth 18515) and $(bandwidth 18516)"

for address in "$(rail_address A 0)" "$(rail_address6 A 1)"; do
  start A timeout 20 rping -s -a "$address" -C 20 -S 4096
  server=$!
  sleep 0.5
  on B timeout 20 rping -c -a "$address" -C 20 -S 4096 || { echo "rping to $address failed"; exit 1; }
  wait $server
  echo "librdmacm to $address: 20 pings"
done
