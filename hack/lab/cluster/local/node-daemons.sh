# shellcheck shell=bash
# The daemons of one node and what keeps them running.

# supervise NAME CMD...: restarts CMD whenever it ends, except while $DIR/stopped/NAME exists.
supervise() {
  local name=$1 status
  shift
  (
    trap - TERM
    while :; do
      if [ -e "$DIR/stopped/$name" ]; then sleep 0.2; continue; fi
      "$@" >> "$LOGS/$name.log" 2>&1 &
      echo $! > "$DIR/pids/$name"
      status=0; wait $! || status=$?
      echo "supervise: $name ended with status $status" >> "$LOGS/$name.log"
      sleep 0.5
    done
  ) &
}

run_etcd() {
  # A cluster that is thrown away needs no fsync, and a shared disk is slow at it.
  supervise etcd etcd --name=n1 --data-dir=/var/lib/etcd --unsafe-no-fsync \
    --listen-client-urls=https://127.0.0.1:2379 --advertise-client-urls=https://127.0.0.1:2379 \
    --listen-peer-urls=https://127.0.0.1:2380 --initial-advertise-peer-urls=https://127.0.0.1:2380 \
    --initial-cluster=n1=https://127.0.0.1:2380 \
    --client-cert-auth --trusted-ca-file="$PKI/etcd/ca.crt" \
    --cert-file="$PKI/etcd/server.crt" --key-file="$PKI/etcd/server.key" \
    --peer-client-cert-auth --peer-trusted-ca-file="$PKI/etcd/ca.crt" \
    --peer-cert-file="$PKI/etcd/peer.crt" --peer-key-file="$PKI/etcd/peer.key"
}

run_apiserver() {
  supervise kube-apiserver kube-apiserver --advertise-address="$(first "$(node_ips n1)")" --secure-port=6443 \
    --allow-privileged=true --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-cluster-ip-range="$SERVICE_CIDR" --client-ca-file="$PKI/ca.crt" \
    --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --etcd-servers=https://127.0.0.1:2379 --etcd-cafile="$PKI/etcd/ca.crt" \
    --etcd-certfile="$PKI/apiserver-etcd-client.crt" --etcd-keyfile="$PKI/apiserver-etcd-client.key" \
    --kubelet-preferred-address-types=InternalIP \
    --kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt" \
    --kubelet-client-key="$PKI/apiserver-kubelet-client.key" \
    --proxy-client-cert-file="$PKI/front-proxy-client.crt" --proxy-client-key-file="$PKI/front-proxy-client.key" \
    --requestheader-allowed-names=front-proxy-client --requestheader-client-ca-file="$PKI/front-proxy-ca.crt" \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group \
    --requestheader-username-headers=X-Remote-User \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key"
}

run_controllers() {
  local name kubeconfig
  for name in controller-manager scheduler; do
    kubeconfig=$KUBECONFIGS/$name.conf
    local args=(--kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig"
      --authorization-kubeconfig="$kubeconfig" --leader-elect=false --bind-address=127.0.0.1)
    if [ "$name" = controller-manager ]; then
      args+=(--root-ca-file="$PKI/ca.crt" --client-ca-file="$PKI/ca.crt" --use-service-account-credentials=true
        --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key"
        --service-account-private-key-file="$PKI/sa.key")
    fi
    supervise "kube-$name" "kube-$name" "${args[@]}"
  done
}

run_containerd() {
  supervise containerd containerd --config /etc/containerd.toml
  until ctr -a "$CRI_SOCKET" version >/dev/null 2>&1; do sleep 0.1; done
}

import_images() {  # what the cluster itself runs
  local archive
  for archive in "$CLUSTER_IMAGES"/*.tar; do
    ctr -a "$CRI_SOCKET" -n k8s.io images import --local --platform linux/amd64 "$archive" \
      >> "$LOGS/import.log" 2>&1
  done
}

run_kubelet() {
  supervise kubelet kubelet --config=/var/lib/kubelet/config.yaml \
    --kubeconfig="$KUBECONFIGS/$NODE/kubelet.conf" --hostname-override="$NODE" \
    --node-ip="$(node_ips "$NODE")" -v=2
}

run_kube_proxy() { supervise kube-proxy kube-proxy --config=/etc/kube-proxy.yaml -v=2; }
