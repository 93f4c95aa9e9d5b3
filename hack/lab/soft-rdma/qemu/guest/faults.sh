# shellcheck shell=bash
# In the guest of ../tests/05-user-mode.sh: the faults that fabric.sh makes do hurt, only where they are meant to, and pass: a rail that goes down and comes back, a
# peer that dies, a device that is taken away, frames that get lost.
. hack/lab/soft-rdma/fabric.sh
. hack/lab/soft-rdma/perftest.sh

received() { on B cat "/sys/class/net/rail$1/statistics/rx_bytes"; }
under_way() {  # under_way RAIL: until READs have sent 50 requests more
  local before
  before=$(counter B "$1" sent_pkts)
  until [ "$(counter B "$1" sent_pkts)" -gt $((before + 50)) ]; do sleep 0.05; done
}
stands_still() {  # stands_still RAIL: nothing is read any more
  local before
  sleep 0.5
  before=$(received "$1")
  sleep 1
  [ $(($(received "$1") - before)) -lt 65536 ]
}

kill_readers() { pkill -KILL -f "^ib_read_bw -d $(rail_device B "$1") " || true; }  # kill_readers RAIL
ended() {  # ended PID: the readers are gone, too
  if wait "$1"; then echo "the READs ended well"; exit 1; fi
}

fabric_up
# perftest asks for 7 retries, which rxe takes as "for ever": its READs may wait for the rail until they are killed. Where
# the interface refuses a frame at once, they fail at once.
echo "== a rail goes down under READs and comes back"
read_bw 1 4 18515 -s 131072 -n 100000 & reader=$!
under_way 1
rail_down A 1
stands_still 1 || { echo "pages arrive over a rail that is down"; exit 1; }
read_bw 0 4 18516 -s 131072 -n 64 || { echo "the other rail does not work either"; exit 1; }
kill_readers 1
rail_up A 1
rail_ready B 1
# What they had sent is let go of by now; while the rail is down, the kernel keeps their end waiting for that, for 50 s.
ended $reader
for family in 4 6; do
  read_bw 1 $family 18517 -s 131072 -n 64 || { echo "the rail does not come back for IPv$family"; exit 1; }
done

echo "== a peer dies under READs"
read_bw 0 4 18515 -s 131072 -n 100000 & reader=$!
under_way 0
pkill -KILL -f '^ib_read_bw -d rxe_a0'
stands_still 0 || { echo "pages arrive from a dead peer"; exit 1; }
kill_readers 0
ended $reader
read_bw 0 4 18515 -s 131072 -n 64 || { echo "the rail does not work after the death of a peer"; exit 1; }

echo "== a device is taken away under READs and brought back"
read_bw 1 4 18515 -s 131072 -n 100000 & reader=$!
under_way 1
device_remove B 1
stands_still 1 || { echo "pages arrive over a device that is gone"; exit 1; }
kill_readers 1
ended $reader
device_add B 1
rail_ready B 1
read_bw 1 4 18516 -s 131072 -n 64 || { echo "the device does not come back"; exit 1; }

echo "== frames get lost"
netem A 0 loss 1%
retries=$(counter B 0 completer_retry_err)
read_bw 0 4 18515 -s 131072 -n 128 -u 10 || { echo "READs fail when 1% of the frames is lost"; exit 1; }
retries=$(($(counter B 0 completer_retry_err) - retries))
echo "$retries retries, $(bandwidth 18515)"
[ $retries -gt 0 ] || { echo "nothing was lost"; exit 1; }
netem_off A 0
