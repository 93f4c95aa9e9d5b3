# shellcheck shell=bash
# In the guest of ../kubernetes.sh: makes it a Kubernetes node with a RoCE port on each NUMA node, and runs until $WORK/done
# is there.
. hack/lib.sh
. hack/lab/soft-rdma/qemu/kubernetes/settings.sh
. hack/lab/cluster/local/node-config.sh
. hack/lab/cluster/local/node-daemons.sh

network_up() {
  local interface numa
  for interface in /sys/class/net/*; do
    interface=${interface##*/}
    case $(basename "$(readlink "/sys/class/net/$interface/device/driver" || true)") in
      virtio_net)
        ip addr add "$(node_ip "$NODE")/24" dev "$interface"
        ip link set "$interface" up
        ip route add default via "$NET.11"
        ;;
      e1000e)
        numa=$(cat "/sys/class/net/$interface/device/numa_node")
        ip link set "$interface" name "rail$numa"
        ;;
    esac
  done
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

# The ports are in two subnets, which a router joins. rxe sends by the routes of the machine, which are therefore those of the pods.
# What one port sends to the other has an address of this machine as its source, and would not be let in without accept_local.
rails_up() {
  local numa
  for numa in 0 1; do
    ip addr add "$(rail_ip $numa)/24" dev "rail$numa"
    ip link set "rail$numa" mtu 9000 up
    echo 1 >"/proc/sys/net/ipv4/conf/rail$numa/accept_local"
    ip route add "$(rail_ip $((1 - numa)))/32" via "$(router_ip $numa)" dev "rail$numa" metric 100
    rdma link add "rxe$numa" type rxe netdev "rail$numa"
  done
  for numa in 0 1; do hack/lab/soft-rdma/await-port.sh "rxe$numa" "$(rail_ip $numa)" >/dev/null; done
}

mounts_up() {
  local tree
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /mnt/disk
  mount -t ext4 /dev/vda /mnt/disk
  for tree in containerd kubelet; do
    mkdir -p "/var/lib/$tree"
    mount --bind "/mnt/disk/$tree" "/var/lib/$tree"
  done
  mkdir -p /etc/cni/net.d /etc/kubernetes/manifests /opt/cni/bin /var/log/pods /var/log/containers /run/lock
  rm -f /etc/cni/net.d/* /opt/cni/bin/*
  mount --make-rshared /
}

configs_up() {
  local plugin
  hostname "$NODE"
  rm -f /etc/resolv.conf
  echo "nameserver $DNS_IP" >/etc/resolv.conf
  printf '127.0.0.1 localhost\n%s %s\n' "$(node_ip "$NODE")" "$NODE" >/etc/hosts
  for plugin in ptp host-local static macvlan loopback; do cp "$CNI_PLUGINS/$plugin" /opt/cni/bin/; done
  jq -n --arg subnet "$(pod_cidr "$NODE")" '{cniVersion: "1.0.0", name: "pods", plugins: [{type: "ptp", ipMasq: false,
    ipam: {type: "host-local", ranges: [[{subnet: $subnet}]], routes: [{dst: "0.0.0.0/0"}]}}]}' >/etc/cni/net.d/10-ptp.conflist
  containerd_config >/etc/containerd.toml
  # The machine's own cgroups, and cores and devices of a pod from one NUMA node. CPU 0 is the system's, so that each NUMA
  # node has a core for pods. Emulation is slow: long timeouts.
  { kubelet_config | grep -v '^cgroupRoot:'
    cat <<Y
cpuManagerPolicy: static
reservedSystemCPUs: "0"
runtimeRequestTimeout: 10m
Y
  } >/var/lib/kubelet/config.yaml
}

export PATH=$BIN:$PATH
LOGS=$WORK/log  # what is written elsewhere stays in the guest
mkdir -p "$LOGS" "$DIR/pids"
network_up
rails_up
mounts_up
configs_up
step "guest: ports and disk are there after ${SECONDS} s"
run_containerd
step "guest: containerd runs after ${SECONDS} s"
run_kubelet
until [ -e "$WORK/done" ]; do sleep 1; done
