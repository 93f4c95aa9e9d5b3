# shellcheck shell=bash
# Each node's kubelet gets a cgroup of its own to build its tree in: /<prefix>/<node>, in every
# hierarchy of cgroup v1, or in the one of cgroup v2.

cgroup_v1_mounts() { awk '$3 == "cgroup" {print $2}' /proc/mounts; }
cgroup_v2_mount() { awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts; }

cgroups_up() {
  local mount dir file v1
  v1=$(cgroup_v1_mounts)
  for mount in ${v1:-$(cgroup_v2_mount)}; do
    for dir in "$mount/$PREFIX" "${NODES[@]/#/$mount/$PREFIX/}"; do
      mkdir -p "$dir"
      # v1 cpusets start empty and then refuse every process.
      for file in cpuset.cpus cpuset.mems; do
        [ -z "$v1" ] || [ ! -e "$dir/$file" ] || cat "$dir/../$file" > "$dir/$file"
      done
      [ -n "$v1" ] || hand_down_controllers "$dir/.."
    done
  done
}

# v2 hands controllers down one level at a time. Those the kernel keeps back, kubelet names if it needs them.
hand_down_controllers() {
  local controller controllers
  read -ra controllers < "$1/cgroup.controllers"
  for controller in "${controllers[@]}"; do
    echo "+$controller" > "$1/cgroup.subtree_control" || true
  done 2>/dev/null
}

cgroups_down() {
  local mount
  for mount in $(cgroup_v1_mounts) $(cgroup_v2_mount); do
    [ ! -d "$mount/$PREFIX" ] || find "$mount/$PREFIX" -depth -type d -exec rmdir {} +
  done
}
