# shellcheck shell=bash
# The add-on `dra`: a test driver of dynamic resource allocation that stands for DraNet, on every machine but that of the
# control plane, which has no ports. Sourced by ../cluster.

DRIVER_SLICES=(resourceslices --field-selector spec.driver=dra.net)

dra_up() {
  local start=$SECONDS made machines
  made=$("$HERE/dra/images.sh")
  provider_load_images "$made"/*.tar
  "$BIN/kubectl" apply -f "$HERE/dra/driver.yaml" >/dev/null
  "$BIN/kubectl" -n kube-system rollout status daemonset/dra-driver --timeout=120s >/dev/null
  machines=$("$BIN/kubectl" -n kube-system get daemonset dra-driver -o jsonpath='{.status.numberReady}')
  wait_for 60 "a ResourceSlice of each of $machines machines" dra_published "$machines"
  step "a driver of dynamic resource allocation runs after $((SECONDS - start)) s"
}

dra_published() { [ "$("$BIN/kubectl" get "${DRIVER_SLICES[@]}" -o name | wc -l)" -eq "$1" ]; }

# Pods with claims must be gone: nobody would take these back.
dra_down() {
  "$BIN/kubectl" delete --ignore-not-found --wait -f "$HERE/dra/driver.yaml" >/dev/null
  "$BIN/kubectl" delete "${DRIVER_SLICES[@]}" >/dev/null
  step "the driver of dynamic resource allocation is gone"
}
