# shellcheck shell=bash
# Configuration files of one node: resolver, CNI, containerd, kubelet, kube-proxy.

configs_write() {
  echo "nameserver $NET.1" > /etc/resolv.conf
  printf '127.0.0.1 localhost\n%s %s\n' "$(node_ip "$NODE")" "$NODE" > /etc/hosts
  cni_config
  containerd_config > /etc/containerd.toml
  kubelet_config > /var/lib/kubelet/config.yaml
  kube_proxy_config > /etc/kube-proxy.yaml
}

cni_config() {
  rm -rf /etc/cni/net.d/*  # whereabouts has a folder there
  cp "$CNI_PLUGINS"/* /opt/cni/bin/
  cat > /etc/cni/net.d/10-bridge.conflist <<J
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [
     $(in_families "[{\"subnet\": \"$(pod_cidr "$NODE")\"}]" "[{\"subnet\": \"$(pod_cidr6 "$NODE")\"}]")],
     "routes": [$(in_families '{"dst": "0.0.0.0/0"}' '{"dst": "::/0"}')]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
J
  # Pods keep their address towards pods and nodes, and take the node's towards the world.
  nft -f - <<N
table ip pod-masquerade {
  chain post {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr $(pod_cidr "$NODE") ip daddr != $POD_NET.0.0/16 ip daddr != $NET.0/24 masquerade
  }
}
N
}

containerd_config() {
  cat <<T
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "$CRI_SOCKET"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "$PAUSE_IMAGE"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true   # without CAP_SYS_RESOURCE it cannot be lowered
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false
T
}

# A kubelet refuses fields that it does not know. A guest of soft-rdma has it, and not KUBE_MINOR.
from_minor() {
  : "${KUBE_MINOR:=$(kubelet --version | sed -E 's/.* v1\.([0-9]+).*/\1/')}"
  [ "$KUBE_MINOR" -lt "$1" ] || echo "$2"
}

# Disk pressure must not evict: the nodes share the machine's disk with everything else on it. An image that was loaded stays
# good under its own name also after pods have pulled the same one from a registry: else a second run finds no image. Devices
# come from one of the two NUMA nodes that node-mounts.sh shows. Cores do not: the static CPU manager would keep one of two for
# the system.
kubelet_config() {
  cat <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$PREFIX/$NODE
cgroupsPerQOS: true
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
enforceNodeAllocatable: [pods]
containerRuntimeEndpoint: unix://$CRI_SOCKET
failSwapOn: false
oomScoreAdj: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
clusterDomain: cluster.local
clusterDNS: [$DNS_IP]
resolvConf: /etc/resolv.conf
evictionHard: {memory.available: "100Mi", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
$(from_minor 33 'imagePullCredentialsVerificationPolicy: NeverVerify')
staticPodPath: /etc/kubernetes/manifests
nodeStatusUpdateFrequency: 4s
syncFrequency: 20s
rotateCertificates: false
shutdownGracePeriod: 0s
Y
}

kube_proxy_config() {
  cat <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: $POD_CIDR
hostnameOverride: $NODE
oomScoreAdj: 0
clientConnection: {kubeconfig: $KUBECONFIGS/kube-proxy.conf}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
Y
}
