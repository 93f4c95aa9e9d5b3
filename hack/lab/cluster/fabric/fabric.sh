# shellcheck shell=bash
# The add-on `fabric`: Multus (thick) and whereabouts, and the image of a test device plug-in, so that pods can have
# an interface on the machines' second network. Sourced by ../cluster.

API_IN_CLUSTER=https://10.96.0.1  # the Service kubernetes
MULTUS_CONF=/etc/cni/net.d/00-multus.conf
WHEREABOUTS_DIR=/etc/cni/net.d/whereabouts.d

fabric_up() {
  local start=$SECONDS made node
  provider_fabric
  made=$("$HERE/fabric/images.sh")
  provider_load_images "$made"/*.tar
  "$BIN/kubectl" apply -f "$made/whereabouts-crds.yaml" -f "$HERE/fabric/whereabouts.yaml" -f "$made/multus.yaml" >/dev/null
  for node in $(fabric_nodes); do fabric_whereabouts "$node"; done
  "$BIN/kubectl" -n kube-system rollout status daemonset/kube-multus-ds --timeout=120s >/dev/null
  for node in $(fabric_nodes); do
    wait_for 60 "configuration of Multus on $node" provider_node_exec "$node" test -s "$MULTUS_CONF"
  done
  step "multus and whereabouts run after $((SECONDS - start)) s"
}

# Pods that Multus gave networks must be gone: nobody would take these back.
fabric_down() {
  local made node
  made=$("$HERE/fabric/images.sh")
  "$BIN/kubectl" delete --ignore-not-found --wait -f "$made/multus.yaml" -f "$HERE/fabric/whereabouts.yaml" \
    -f "$made/whereabouts-crds.yaml" >/dev/null
  for node in $(fabric_nodes); do provider_node_exec "$node" rm -rf "$MULTUS_CONF" "$WHEREABOUTS_DIR"; done
  step "multus and whereabouts are gone"
}

fabric_nodes() { "$BIN/kubectl" get nodes -o jsonpath='{.items[*].metadata.name}'; }

# The plug-in and the way to the API server, which counts the addresses.
fabric_whereabouts() {  # fabric_whereabouts NODE
  provider_node_exec "$1" sh -c 'cat > /opt/cni/bin/.whereabouts && chmod 755 /opt/cni/bin/.whereabouts &&
    mv /opt/cni/bin/.whereabouts /opt/cni/bin/whereabouts' < "$BIN/whereabouts"
  jq -n --arg file "$WHEREABOUTS_DIR/kubeconfig" '{datastore: "kubernetes", kubernetes: {kubeconfig: $file}}' |
    provider_node_exec "$1" sh -c "mkdir -p $WHEREABOUTS_DIR && cat > $WHEREABOUTS_DIR/whereabouts.conf"
  whereabouts_kubeconfig |
    provider_node_exec "$1" sh -c "umask 077 && cat > $WHEREABOUTS_DIR/kubeconfig"
}

whereabouts_kubeconfig() {
  local authority token
  authority=$("$BIN/kubectl" config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}')
  token=$("$BIN/kubectl" -n kube-system create token whereabouts --duration=24h)
  jq -n --arg server "$API_IN_CLUSTER" --arg authority "$authority" --arg token "$token" '{
    apiVersion: "v1", kind: "Config", "current-context": "here",
    clusters: [{name: "here", cluster: {server: $server, "certificate-authority-data": $authority}}],
    users: [{name: "here", user: {token: $token}}],
    contexts: [{name: "here", context: {cluster: "here", user: "here", namespace: "kube-system"}}]}'
}
