# shellcheck shell=bash
# The add-on `lws`: the controllers and webhooks of LeaderWorkerSets, as their release has them. Sourced by ../cluster.

lws_up() {
  local start=$SECONDS made sample=$PEERCACHE_ROOT/docs/samples/leader-worker-set.yaml
  made=$("$HERE/lws/images.sh")
  provider_load_images "$made"/*.tar
  # An annotation, which apply would write without it, cannot hold definitions of this size.
  "$BIN/kubectl" apply --server-side -f "$made/lws.yaml" >/dev/null
  "$BIN/kubectl" -n lws-system rollout status deployment/lws-controller-manager --timeout=120s >/dev/null
  wait_for 60 "the webhooks of LeaderWorkerSets answer" "$BIN/kubectl" create --dry-run=server -f "$sample"
  step "LeaderWorkerSets are served after $((SECONDS - start)) s"
}

lws_down() {
  local made
  made=$("$HERE/lws/images.sh")
  "$BIN/kubectl" delete --ignore-not-found --wait -f "$made/lws.yaml" >/dev/null
  step "LeaderWorkerSets are served no more"
}
