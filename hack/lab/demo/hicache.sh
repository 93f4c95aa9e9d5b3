# shellcheck shell=bash
# SGLang's storage layer in the demo: the real source of its HiCache, on a CPU. Sourced by demo.sh, whose variables it uses.

# shellcheck disable=SC2034  # demo.sh reads them
ENGINE_NAME=SGLang ENGINE_WHAT="SGLang's storage layer on a CPU" ENGINE_ARGS=6
PAGES=300
# shellcheck disable=SC2034
ENGINE_JOB="$PAGES KV pages, written on one node and read at once on another"

prepare_engine() { :; }

# What a user writes: SGLang's own command line, and one label.
engine_manifest() {  # engine_manifest NAME NODE
  cat <<Y
apiVersion: v1
kind: Pod
metadata:
  name: $1
  labels: {peercache.io/inject: $CLUSTER}
spec:
  nodeSelector: {kubernetes.io/hostname: $2}
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers:
  - name: sglang
    image: $(image_name engine)
    command: [python3, -m, sglang.launch_server]
    args: [--model-path, demo/model, --page-size, "16", --port, "30000"]
    readinessProbe:
      exec: {command: [enginectl, health]}
      periodSeconds: 2
      timeoutSeconds: 10
      failureThreshold: 10
Y
}

main_job() {
  move_pages mha page_first true
  move_pages mha layer_first false
  move_pages mla page_first_direct true
}

engine() {  # engine POD ACTION REQUEST
  kubectl -n "$NAMESPACE" exec "$1" -c sglang -- enginectl "$2" "$3"
}

move_pages() {  # move_pages KIND LAYOUT INTERFACE-V1
  local request wrote read
  request=$(jq -nc --arg kind "$1" --arg layout "$2" --argjson v1 "$3" --argjson pages "$PAGES" \
    --argjson seed "$RANDOM" '{kind: $kind, layout: $layout, v1: $v1, seed: $seed, pages: $pages}')
  wrote=$(engine writer write "$request") || die "writing pages failed: $wrote" "kubectl -n $NAMESPACE logs writer"
  read=$(engine reader read "$request") || die "reading pages failed: $read" "kubectl -n $NAMESPACE logs reader"
  jq -nr --argjson w "$wrote" --argjson r "$read" --arg what "$1 $2 $([ "$3" = true ] && echo v1 || echo generic)" --argjson pages "$PAGES" '
    ([range($pages)] | map(select($w.sha256s[.] != null and $w.sha256s[.] == $r.sha256s[.])) | length) as $equal |
    "    \($what): \($w.backup) tokens written in \($w.seconds * 1000 | round) ms, " +
    "\($r.prefetched) read in \($r.seconds * 1000 | round) ms, \($equal) of \($pages) pages equal byte for byte",
    if $equal == $pages then empty else error("pages differ") end'
}

store_before() {
  REQUEST=$(jq -nc --argjson pages "$PAGES" --argjson seed "$RANDOM" '{kind: "mha", layout: "page_first", v1: true, seed: $seed, pages: $pages}')
  local wrote
  wrote=$(engine writer write "$REQUEST") || die "writing pages failed: $wrote" "kubectl -n $NAMESPACE logs writer"
  WROTE=$(jq -c .sha256s <<<"$wrote")
}

found_again() {
  local read
  read=$(engine reader read "$REQUEST") && [ "$(jq -c .sha256s <<<"$read")" = "$WROTE" ] || return 1
  # shellcheck disable=SC2034
  FOUND="$PAGES of $PAGES pages read on $READER are equal byte for byte, and none was written anew"
}

look_around() {
  local action
  for action in writer\ write reader\ read; do
    echo "  kubectl -n $NAMESPACE exec ${action% *} -c sglang -- enginectl ${action#* } '{\"kind\": \"mla\", \"seed\": 7, \"pages\": 100}'"
  done
}
