# shellcheck shell=bash
# The node's view of the file system: the machine's own, with private copies of what a node writes.

# The tunables that kubelet insists on belong to the whole machine. The node is shown files with
# the wanted values instead, so the machine's own settings stay as they are.
FAKE_TUNABLES="vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000"

mounts_up() {
  local tree pair file
  # Private while building: nothing of this may reach the machine. Shared at the end: kubelet's
  # mount propagation into containers needs it.
  mount --make-rprivate /
  sysfs_of_this_netns
  numa_up
  for tree in etc opt var/lib var/log; do
    mkdir -p "$DIR/overlay/$tree/upper" "$DIR/overlay/$tree/work"
    mount -t overlay "node-${tree//\//-}" \
      -o "lowerdir=/$tree,upperdir=$DIR/overlay/$tree/upper,workdir=$DIR/overlay/$tree/work" "/$tree"
  done
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/lock /run/netns /run/containerd
  # Directly on the disk: an overlay cannot lie on an overlay, and containerd makes overlays.
  for tree in lib/containerd lib/kubelet lib/etcd log/pods; do
    mkdir -p "$DIR/var/$tree" "/var/$tree"
    mount --bind "$DIR/var/$tree" "/var/$tree"
  done
  mkdir -p /var/log/containers /etc/cni/net.d /etc/kubernetes/manifests /opt/cni/bin
  for pair in $FAKE_TUNABLES; do
    file=$DIR/tunables/${pair%=*}
    mkdir -p "$(dirname "$file")"
    echo "${pair#*=}" > "$file"
    [ ! -e "/proc/sys/${pair%=*}" ] || mount --bind "$file" "/proc/sys/${pair%=*}"
  done
  mount --make-rshared /
}

# sysfs shows the network devices of the namespace it was mounted in; the cgroup mounts below it stay.
sysfs_of_this_netns() {
  mkdir -p "$DIR/cgroup"
  mount --rbind /sys/fs/cgroup "$DIR/cgroup"
  mount -t sysfs sysfs /sys
  mount --rbind "$DIR/cgroup" /sys/fs/cgroup
  umount -l "$DIR/cgroup"
}

# As the kernel writes lists: 0-3,8
ranges() {
  awk 'function show() {printf "%s%s", sep, first == last ? first : first "-" last; sep = ","}
    NR == 1 {first = last = $1; next} $1 == last + 1 {last = $1; next} {show(); first = last = $1} END {show(); print ""}'
}

# Two NUMA nodes, each with half of the machine's CPUs and memory, for kubelet's topology manager to choose from. Pods see
# the machine's own sysfs, unless they mount this.
numa_up() {
  local shown=/sys/devices/system/node fake=$DIR/numa cpus=() half node list cpu
  [ -d "$shown" ] || return 0  # the kernel was built without NUMA
  mapfile -t cpus < <(lscpu --parse=cpu | grep -v '^#')
  half=$(((${#cpus[@]} + 1) / 2))
  for node in 0 1; do
    list=("${cpus[@]:node * half:half}")
    mkdir -p "$fake/node$node"
    # Links as in the real tree, seen from where it is mounted.
    for cpu in "${list[@]}"; do ln -sfn "../../cpu/cpu$cpu" "$fake/node$node/cpu$cpu"; done
    printf '%s\n' "${list[@]}" | ranges > "$fake/node$node/cpulist"
    awk -v node="$node" '/^(MemTotal|MemFree|(Ina|A)ctive\(file\)):/ {printf "Node %d %-16s %8d kB\n", node, $1, $2 / 2}' \
      /proc/meminfo > "$fake/node$node/meminfo"
  done
  echo "10 20" > "$fake/node0/distance"
  echo "20 10" > "$fake/node1/distance"
  tee "$fake"/{online,possible,has_cpu,has_memory,has_normal_memory} > /dev/null <<<0-1
  mount --bind -o ro "$fake" "$shown"
}
