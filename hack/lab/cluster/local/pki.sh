# shellcheck shell=bash
# Certificates and kubeconfigs, made by kubeadm's own phases so that they are what a real cluster has.

PKI=$CLUSTER_DIR/pki
KUBECONFIGS=$CLUSTER_DIR/kubeconfigs

kubeadm_config() {  # kubeadm_config NODE
  cat <<Y
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: "$(first "$(node_ips n1)")", bindPort: 6443}
nodeRegistration: {name: $1, criSocket: "unix://$CRI_SOCKET"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $KUBE_VERSION
clusterName: peercache
certificatesDir: $PKI
controlPlaneEndpoint: $NET.11:6443
networking: {serviceSubnet: "$SERVICE_CIDR", podSubnet: "$POD_CIDR", dnsDomain: cluster.local}
apiServer: {certSANs: [127.0.0.1, localhost, $NET.11, "$(node_ip6 n1)"]}
etcd: {local: {serverCertSANs: [127.0.0.1, localhost]}}
Y
}

pki_up() {
  local node user config=$CLUSTER_DIR/kubeadm.yaml
  mkdir -p "$PKI" "$KUBECONFIGS"
  kubeadm_config n1 > "$config"
  "$BIN/kubeadm" init phase certs all --config "$config" >/dev/null
  for user in super-admin controller-manager scheduler; do
    "$BIN/kubeadm" init phase kubeconfig "$user" --config "$config" --kubeconfig-dir "$KUBECONFIGS" >/dev/null
  done
  for node in "${NODES[@]}"; do
    mkdir -p "$KUBECONFIGS/$node"
    kubeadm_config "$node" > "$KUBECONFIGS/$node/kubeadm.yaml"
    "$BIN/kubeadm" init phase kubeconfig kubelet --config "$KUBECONFIGS/$node/kubeadm.yaml" \
      --kubeconfig-dir "$KUBECONFIGS/$node" >/dev/null
  done
  "$BIN/kubeadm" kubeconfig user --config "$config" --client-name system:kube-proxy \
    > "$KUBECONFIGS/kube-proxy.conf" 2>/dev/null
  # shellcheck disable=SC2153  # KUBECONFIG, the user's, is set by `cluster`
  install -m 600 "$KUBECONFIGS/super-admin.conf" "$KUBECONFIG"
}
