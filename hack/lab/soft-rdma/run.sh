#!/usr/bin/env bash
# Runs a command in a guest that has soft-RoCE: user-mode Linux on this machine's own files, one CPU, up in half a second.
#
#   hack/lab/soft-rdma/run.sh [--time SECONDS] [--memory SIZE] [--work FOLDER] CMD [ARG...]
#
# CMD runs as root, in the present folder and environment, with its output here. The host's / is the guest's /, read-only;
# /tmp, /run and /dev/shm are the guest's own; FOLDER (default: one that is removed afterwards, in $WORK) can be written
# by both. No devices exist at first: fabric.sh makes them.
#
# Exit status: that of CMD; 124 when the time (default 120 s) is over; 125 when the guest ended by itself.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/guest.sh"

seconds=120 memory=2G work=''
while [ $# -gt 0 ]; do
  case $1 in
    --time) seconds=$2 && shift 2 ;;
    --memory) memory=$2 && shift 2 ;;
    --work) work=$2 && shift 2 ;;
    -*) die "unknown option '$1'" "sed -n '2,/^set/p' hack/lab/soft-rdma/run.sh" ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || die "no command given" "hack/lab/soft-rdma/run.sh CMD [ARG...]"
# It takes a process namespace to be sure that nothing of a guest outlives it.
need_root
need unshare timeout mkfifo rdma ibv_devices busybox
kernel=${SOFT_RDMA_KERNEL:-$("$HERE/kernel/build.sh" --path)}

guest_files "$HERE/guest-init.sh" "$work" "$@"

ulimit -c 0  # a kernel that panics would leave its memory behind
# Nothing outlives unshare. bash stays below it, because the first process of a namespace cannot end itself by a signal, as
# a kernel that panics does. The kernel's arguments can hold no spaces. A guest that gets no processor for a second looks like
# a dead node to its peer, so it comes before what else runs here; many a scheduler weighs sessions, and only then processes.
setsid bash -c '{ echo -10 > /proc/self/autogroup; } 2>/dev/null; exec nice -n -10 "$@"' guest \
  unshare --pid --fork --kill-child=KILL bash -c '"$@"; exit $?' guest \
  "$kernel" "mem=$memory" rootfstype=hostfs rootflags=/ ro "init=$own/init" "uml_dir=$own" umid=guest \
  con=null con0=fd:0,fd:1 quiet oops=panic panic=-1 </dev/null >"$own/output" 2>&1 &
guest=$!
guest_end "$seconds" "mem=$memory has to fit into /dev/shm; if no guest starts, remove $kernel" "$@"
