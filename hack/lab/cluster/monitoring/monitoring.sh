# shellcheck shell=bash
# The add-on `monitoring`: the Prometheus Operator, and by it a Prometheus that takes up the monitors and rules of every
# namespace. Sourced by ../cluster.

monitoring_up() {
  local start=$SECONDS made
  made=$("$HERE/monitoring/images.sh")
  provider_load_images "$made"/*.tar
  "$BIN/kubectl" apply --server-side -f "$made/prometheus-operator.yaml" >/dev/null
  "$BIN/kubectl" wait --for=condition=Established --timeout=60s crd/prometheuses.monitoring.coreos.com >/dev/null
  "$BIN/kubectl" apply -f "$made/prometheus.yaml" >/dev/null
  "$BIN/kubectl" -n monitoring wait --for=condition=Available --timeout=180s prometheus/main >/dev/null
  step "the Prometheus Operator and a Prometheus run after $((SECONDS - start)) s"
}

# With the kinds go all monitors and rules that there are.
monitoring_down() {
  local made
  made=$("$HERE/monitoring/images.sh")
  # The Prometheus goes with its kind.
  "$BIN/kubectl" delete --ignore-not-found --wait -f "$made/prometheus-operator.yaml" >/dev/null
  step "the Prometheus Operator and its Prometheus are gone"
}
