# shellcheck shell=bash
# The add-on `policies`: kube-router enforces NetworkPolicies on each machine. Sourced by ../cluster.

policies_up() {
  local start=$SECONDS made
  made=$("$HERE/policies/images.sh")
  provider_load_images "$made"/*.tar
  "$BIN/kubectl" apply -f "$HERE/policies/kube-router.yaml" >/dev/null
  "$BIN/kubectl" -n kube-system rollout status daemonset/kube-router --timeout=90s >/dev/null
  step "policies are enforced after $((SECONDS - start)) s"
}

# Each kube-router takes its rules with it.
policies_down() {
  "$BIN/kubectl" delete --ignore-not-found --wait --cascade=foreground -f "$HERE/policies/kube-router.yaml" >/dev/null
  step "policies are not enforced any more"
}
