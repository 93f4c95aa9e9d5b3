#!/usr/bin/env bash
# From nothing to PeerCache on a real cluster of three nodes, on this machine: KV pages that an engine's pod
# writes on one node are read back by another pod on another node.
#
#   hack/lab/demo.sh                 SGLang's HiCache; at most 20 minutes when everything has to be built, two when it is there
#   ENGINE=sglang hack/lab/demo.sh   SGLang's own server on a CPU, asked over HTTP; its packages are 7 GB
#   ENGINE=vllm hack/lab/demo.sh     vLLM's, of the same packages
#
# Where a Docker engine answers, Kubernetes is kind's and is not built. PROVIDER=kind|local chooses.
#
# The cluster stays up; the end of the output says how to look around and how to remove it.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../lib.sh"
. "$HERE/cluster/toolset.sh"
. "$HERE/../release/images/targets.sh"
ENGINE=${ENGINE:-hicache}
case $ENGINE in
  hicache | sglang | vllm) ;;
  *) die "ENGINE=$ENGINE is no engine of the demo" "use hicache, sglang or vllm" ;;
esac
# shellcheck source=demo/hicache.sh
. "$HERE/demo/$ENGINE.sh"

# As in the README's quick start, which the demo follows.
NAMESPACE=inference
CLUSTER=kv
STARTED=$SECONDS

exec 2>&1  # one stream: progress and results in their order, also in a file
BOLD='' PLAIN=''
[ ! -t 1 ] || { BOLD=$'\033[1m' PLAIN=$'\033[0m'; }

# Each part under a heading with the time since the start.
part() { printf '\n%s[%3ds] %s%s\n' "$BOLD" $((SECONDS - STARTED)) "$*" "$PLAIN"; }

# await SECONDS WHAT CMD...: wait_for, and on failure what to look at.
await() {
  wait_for "$@" || {
    kubectl -n "$NAMESPACE" get pods,peercacheclusters -o wide || true
    kubectl -n "$NAMESPACE" get events --field-selector type!=Normal --sort-by=.lastTimestamp 2>/dev/null | tail -8 || true
    die "the demo stopped" "look around with: export KUBECONFIG=$KUBECONFIG; kubectl -n $NAMESPACE describe pods"
  }
}

remove_old() {
  local old
  old=$(kubectl get namespaces -l peercache.io/throwaway -o name)
  [ -n "$old" ] || return 0
  note "removing $old of an earlier run"
  # shellcheck disable=SC2086  # a list
  kubectl delete --timeout=120s $old >/dev/null
}

install_operator() {
  helm upgrade --install peercache "$PEERCACHE_ROOT/charts/peercache" --namespace peercache-system --create-namespace \
    --set-string podAnnotations.build="$(cat "$(image_archive operator).inputs")" --wait --timeout 3m >/dev/null
  note "helm upgrade --install peercache charts/peercache --namespace peercache-system --create-namespace --wait"
}

create_cache() {
  ! kubectl get namespace "$NAMESPACE" >/dev/null 2>&1 ||
    die "namespace $NAMESPACE is there, and was not made by the demo" "delete it, or take another cluster"
  "$HERE/demo/manifest.sh" | kubectl apply -f - >/dev/null
  kubectl label namespace "$NAMESPACE" peercache.io/throwaway=true >/dev/null
  kubectl -n "$NAMESPACE" wait --for=create "daemonset/$CLUSTER-default" --timeout=30s >/dev/null
  await 120 "PeerCacheCluster $CLUSTER to be Ready" \
    kubectl -n "$NAMESPACE" wait --for=condition=Ready "peercachecluster/$CLUSTER" --timeout=2s
  kubectl -n "$NAMESPACE" get peercachecluster "$CLUSTER" | sed 's/^/    /'
}

injected() {  # would the webhook connect a pod by now?
  engine_manifest probe "$WRITER" | kubectl -n "$NAMESPACE" create --dry-run=server -o yaml -f - |
    grep -q 'peercache.io/injected'
}

start_engines() {
  await 60 "the webhook to connect pods" injected
  engine_manifest writer "$WRITER" | kubectl -n "$NAMESPACE" apply -f - >/dev/null
  engine_manifest reader "$READER" | kubectl -n "$NAMESPACE" apply -f - >/dev/null
  await 300 "both engine pods to be Ready" kubectl -n "$NAMESPACE" wait --for=condition=Ready pod/writer pod/reader --timeout=2s
  kubectl -n "$NAMESPACE" get pods -o wide | awk '{printf "    %-20s  %-5s  %-7s  %s\n", $1, $2, $3, $7}'
  note "what the webhook added to the arguments:"
  kubectl -n "$NAMESPACE" get pod reader -o jsonpath='{.spec.containers[0].args}' | jq -r --argjson own "$ENGINE_ARGS" '.[$own:][] | "      " + .'
}

node_restarts() { kubectl -n "$NAMESPACE" get pod "$(node_pod "$1")" -o 'jsonpath={.status.containerStatuses[0].restartCount}'; }

serves_again() {  # serves_again NODE RESTARTS: has its node restarted more often than that, and is it ready?
  [ "$(node_restarts "$1")" -gt "$2" ] &&
    kubectl -n "$NAMESPACE" wait --for=condition=Ready "pod/$(node_pod "$1")" --timeout=1s >/dev/null
}

# What was stored before is found again when the process that holds it has been killed.
kill_node() {  # kill_node NODE
  local restarts
  store_before
  restarts=$(node_restarts "$1")
  note "kill -9 of peercached on $1"
  "$HERE/cluster/cluster" node-exec "$1" pkill -9 -x peercached
  await 60 "the node on $1 to serve again" serves_again "$1" "$restarts"
  await 30 "all pages to be found again" found_again
  note "its node is back with $(node_status "$1" | jq -r .pool.pages) pages; $FOUND"
}

node_pod() {  # node_pod NODE: the cache's pod there
  kubectl -n "$NAMESPACE" get pods -l "peercache.io/cluster=$CLUSTER" --field-selector "spec.nodeName=$1" -o 'jsonpath={.items[0].metadata.name}'
}

node_status() {  # node_status NODE
  kubectl get --raw "/api/v1/namespaces/$NAMESPACE/pods/$(node_pod "$1"):31997/proxy/v1/status"
}

show_nodes() {
  local node
  for node in "$WRITER" "$READER" "$THIRD"; do
    node_status "$node" | jq -r --arg node "$node" '
      "    \($node): \(.pool.pages) pages in \(.pool.used_bytes / 1048576 | round) MiB, " +
      "\(.counters.served_pages) served to other nodes, \(.counters.read_remote_hits) read from other nodes, " +
      "\(.engines | length) engine(s), \(.members | length) members"'
  done
}

# The pod whose dashboard shows the whole cluster.
discovery_host() {
  kubectl -n "$NAMESPACE" get pods -l "peercache.io/cluster=$CLUSTER,peercache.io/discovery=host" -o 'jsonpath={.items[0].metadata.name}'
}

# A picture of the dashboard. The browser asks through a port-forward, as a user does.
show_dashboard() {
  local log forward port status=0
  log=$(mktemp)
  kubectl -n "$NAMESPACE" port-forward "pod/$(discovery_host)" :31997 >"$log" & forward=$!
  await 30 "the port-forward" grep -q '^Forwarding' "$log"
  port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "$log" | head -1)
  "$HERE/picture.sh" "http://127.0.0.1:$port/" "$PEERCACHE_ROOT/build/demo/dashboard.png" || status=$?
  kill "$forward" 2>/dev/null || true
  rm -f "$log"
  return $status
}

part "packages"
"$HERE/../dev/deps.sh" --cluster

# Side by side: one waits for downloads and packages while the other compiles. The operator's image comes last,
# when Kubernetes' packages, which it shares, are compiled.
PROVIDER=$("$HERE/cluster/cluster" provider)
export PROVIDER
case $PROVIDER in
  kind) what="Kubernetes comes with kind, in Docker; PROVIDER=local builds it from source" ;;
  *) what="Kubernetes and its companions, from source; with Docker and its image of kind this is minutes" ;;
esac
part "$what; images: data plane, client, $ENGINE_WHAT, operator"
prepare_engine
"$HERE/../release/images/build-images.sh" dataplane client engine operator & IMAGES=$!
trap 'kill "$IMAGES" 2>/dev/null || true' EXIT
BIN=$("$HERE/cluster/cluster" programs)
export PATH=$BIN:$PATH

part "a Kubernetes cluster of three nodes"
"$HERE/cluster/cluster" up >/dev/null
KUBECONFIG=$("$HERE/cluster/cluster" kubeconfig)
export KUBECONFIG
wait "$IMAGES"
"$HERE/../release/images/load-images.sh" operator dataplane client
# The largest by far, and needed last.
"$HERE/../release/images/load-images.sh" engine & IMAGES=$!

mapfile -t NODES < <(kubectl get nodes -l '!node-role.kubernetes.io/control-plane' -o name | sed 's#node/##' | sort)
[ ${#NODES[@]} -ge 2 ] || die "the cluster has ${#NODES[@]} nodes besides the control plane" "the demo needs two"
WRITER=${NODES[0]} READER=${NODES[1]}
THIRD=$(kubectl get nodes -l node-role.kubernetes.io/control-plane -o 'jsonpath={.items[0].metadata.name}')

part "the operator, with Helm"
remove_old
install_operator

part "a PeerCacheCluster: one node of the cache on each machine"
create_cache

wait "$IMAGES"
trap - EXIT
part "two $ENGINE_NAME pods, on $WRITER and $READER, with the label peercache.io/inject: $CLUSTER"
start_engines

part "$ENGINE_JOB"
main_job
show_nodes

part "the node on $WRITER is killed, and comes back with its pages"
kill_node "$WRITER"

part "the dashboard"
show_dashboard

part "done; the cluster stays up"
POD=$(node_pod "$WRITER")
cat <<T

Look around:
  export KUBECONFIG=$KUBECONFIG PATH=$BIN:\$PATH
  kubectl -n $NAMESPACE get pcc,pods -o wide
  kubectl -n $NAMESPACE describe pcc $CLUSTER
  kubectl -n $NAMESPACE get pod reader -o yaml                # what the webhook did
$(look_around)
The dashboard, at http://127.0.0.1:31997/ while this runs:
  kubectl -n $NAMESPACE port-forward pod/$(discovery_host) 31997
Metrics and status of the node on $WRITER:
  kubectl get --raw /api/v1/namespaces/$NAMESPACE/pods/$POD:31997/proxy/metrics
  kubectl get --raw /api/v1/namespaces/$NAMESPACE/pods/$POD:31997/proxy/v1/status
Break something:
  hack/lab/cluster/cluster node-exec $WRITER pkill -9 -x peercached
  hack/lab/cluster/cluster node-link $WRITER down; sleep 5; hack/lab/cluster/cluster node-link $WRITER up
Remove everything:
  make cluster-down
T
