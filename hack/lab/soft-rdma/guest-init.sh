#!/bin/bash
# The first process of the guest: see run.sh, which copies it beside the command, the environment and the folders.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
own=$(dirname "$0")
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs run /run
mkdir -p /run/netns /run/home /run/own

# busybox, because util-linux names the option differently from release to release.
host_folder() {  # host_folder PATH WHERE ro|rw
  mkdir -p "$2"
  busybox mount -t hostfs -o "$3,$1" host "$2"
}
host_folder "$own" /run/own rw
mapfile -t folders </run/own/folders   # the work folder, where the command starts, the tree, the cache

# A /tmp of the guest's own, in which those of the host's folders that lie there show through.
mount -t tmpfs tmp /tmp
chmod 1777 /tmp /dev/shm
while read -r folder; do
  case $folder/ in /tmp/*) [ -d "$folder" ] || host_folder "$folder" "$folder" ro ;; esac
done < <(printf '%s\n' "${folders[@]:1}" | sort)
host_folder "${folders[0]}" "${folders[0]}" rw

# perftest takes the processor's speed from here, and finds none in a guest; it only wants a number.
{ cat /proc/cpuinfo; echo 'cpu MHz : 2000.000'; } >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo
ip link set lo up
ulimit -l unlimited

# shellcheck disable=SC1091  # made by run.sh
. /run/own/environment
export HOME=/run/home TMPDIR=/tmp TERM=dumb SOFT_RDMA_GUEST=yes
cd "${folders[1]}" || exit
bash /run/own/command </dev/null
echo $? >/run/own/status
sync
busybox poweroff -f
