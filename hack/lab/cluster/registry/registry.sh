# shellcheck shell=bash
# The add-on `registry`: a registry in the cluster that speaks HTTP, and machines that pull from it. Prints its address.
# Sourced by ../cluster.

registry_up() {
  local made address node
  made=$("$HERE/registry/images.sh")
  provider_load_images "$made"/*.tar
  "$BIN/kubectl" apply -f "$HERE/registry/registry.yaml" >/dev/null
  "$BIN/kubectl" -n kube-system rollout status deployment/registry --timeout=90s >/dev/null
  address=$("$BIN/kubectl" -n kube-system get pods -l app=registry -o jsonpath='{.items[0].status.hostIP}'):5000
  for node in $("$BIN/kubectl" get nodes -o jsonpath='{.items[*].metadata.name}'); do
    # containerd looks there at each pull.
    provider_node_exec "$node" sh -c "mkdir -p /etc/containerd/certs.d/$address &&
      echo 'server = \"http://$address\"' > /etc/containerd/certs.d/$address/hosts.toml"
  done
  echo "$address"
}

registry_down() {
  "$BIN/kubectl" delete --ignore-not-found --wait -f "$HERE/registry/registry.yaml" >/dev/null
  step "the registry is gone"
}
