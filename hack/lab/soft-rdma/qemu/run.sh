#!/usr/bin/env bash
# Runs a command in a guest with a stock Debian kernel under QEMU's emulation: slower than ../run.sh, but with several
# processors, NUMA nodes, huge pages, PCI devices, and wires between two guests.
#
#   hack/lab/soft-rdma/qemu/run.sh [OPTION...] [--qemu 'ARGUMENTS']... CMD [ARG...]
#     --time SECONDS   default 300
#     --memory SIZE    default 2G
#     --cpus N         default 1
#     --icount         count instructions: the guest's clock goes by 2 ns with each, whatever the host does
#     --one-thread     one thread runs all processors in turns: where the kernel patches itself while other processors run,
#                      which the emulation in parallel does not always survive (Oops: int3)
#     --kernel NAME    what kernel.sh is asked for
#     --work FOLDER    that the command can write to, in $WORK
#
# CMD runs as root, in the present folder and environment, with its output here. The host's / is the guest's /, and what
# is written there stays in the guest. Exit status: that of CMD; 124 when the time is over; 125 when the guest broke.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../../lib.sh"
. "$HERE/../guest.sh"

# All that programs of this machine may have been built for, less what emulation would make slow.
CPU=qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16
seconds=300 memory=2G cpus=1 work='' wanted=() accelerator=tcg,thread=multi extra=()
while [ $# -gt 0 ]; do
  case $1 in
    --time) seconds=$2 && shift 2 ;;
    --memory) memory=$2 && shift 2 ;;
    --cpus) cpus=$2 && shift 2 ;;
    --kernel) wanted=("$2") && shift 2 ;;
    --work) work=$2 && shift 2 ;;
    --icount) accelerator="tcg,thread=single" && extra+=(-icount "shift=1,sleep=on") && shift ;;
    --one-thread) accelerator="tcg,thread=single" && shift ;;
    --qemu) read -ra arguments <<<"$2" && extra+=("${arguments[@]}") && shift 2 ;;
    -*) die "unknown option '$1'" "sed -n '2,/^set/p' hack/lab/soft-rdma/qemu/run.sh" ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || die "no command given" "hack/lab/soft-rdma/qemu/run.sh CMD [ARG...]"
need_root  # the guest reads files of all users
need qemu-system-x86_64 timeout
kernel=$("$HERE/kernel.sh" "${wanted[@]}")

guest_files "$HERE/guest-init.sh" "$work" "$@"

qemu-system-x86_64 -machine q35 -cpu "$CPU" -accel "$accelerator" \
  -smp "$cpus" -m "$memory" -nodefaults -no-user-config -no-reboot -display none -serial stdio \
  -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd.img" \
  -append "console=ttyS0 quiet loglevel=3 panic=-1 oops=panic mitigations=off nokaslr tsc=reliable no_timer_check rcupdate.rcu_expedited=1 random.trust_cpu=on nowatchdog audit=0 selinux=0 apparmor=0 cryptomgr.notests 8250.nr_uarts=1" \
  -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=root,mount_tag=root \
  -fsdev "local,id=own,path=$own,security_model=none" -device virtio-9p-pci,fsdev=own,mount_tag=own \
  -fsdev "local,id=work,path=$WORK,security_model=none" -device virtio-9p-pci,fsdev=work,mount_tag=work \
  -device isa-debug-exit,iobase=0xf4,iosize=0x04 "${extra[@]}" </dev/null >"$own/output" 2>&1 &
guest=$!
guest_end "$seconds" "if no guest starts, remove $kernel" "$@"
