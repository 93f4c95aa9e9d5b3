#!/usr/bin/env bash
# Checks that the running cluster does what the end-to-end tests count on: pods on every node, traffic
# and DNS between them, faults of a link and of the API server, and recovery. About a minute.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
CLUSTER=$HERE/cluster
KUBECONFIG=$("$CLUSTER" kubeconfig)
export KUBECONFIG
NAMESPACE=cluster-smoke
kubectl() { command "$(toolset_bin)/kubectl" -n "$NAMESPACE" "$@"; }

passed() { note "ok: $*"; }
cleanup() {
  "$CLUSTER" control-plane start
  "$CLUSTER" node-link "$FAR_NODE" up
  command "$(toolset_bin)/kubectl" delete namespace "$NAMESPACE" --wait=false >/dev/null
}

step "one pod per node"
kubectl get namespace "$NAMESPACE" >/dev/null 2>&1 || kubectl create namespace "$NAMESPACE" >/dev/null
kubectl apply -f - >/dev/null <<'Y'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers:
      - name: web
        image: docker.io/library/busybox:stable
        command: [sh, -c, 'mkdir /www && echo "$NODE" > /www/index.html && exec httpd -f -p 8080 -h /www']
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
Y
kubectl rollout status daemonset/web --timeout=60s >/dev/null
mapfile -t PODS < <(kubectl get pods -l app=web --sort-by=.spec.nodeName \
  -o 'jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.podIP}{"\n"}{end}')
[ ${#PODS[@]} -ge 3 ] || die "only ${#PODS[@]} pods run" "kubectl -n $NAMESPACE describe pods"
passed "${#PODS[@]} pods run"
read -r NEAR _ _ <<<"${PODS[0]}"
read -r _ FAR_NODE FAR_IP <<<"${PODS[-1]}"
trap cleanup EXIT

fetch() { kubectl exec "$1" -- timeout "${3:-5}" wget -q -O - "http://$2/"; }
for a in "${PODS[@]}"; do
  for b in "${PODS[@]}"; do
    read -r pod node _ <<<"$a"; read -r _ other ip <<<"$b"
    [ "$(fetch "$pod" "$ip:8080")" = "$other" ] || die "pod on $node gets no answer from the pod on $other ($ip)" "check routes and CNI on both: cluster node-exec $node ip route"
  done
done
passed "every pod reaches every pod"
wait_for 15 "DNS name web.$NAMESPACE.svc.cluster.local through the service" fetch "$NEAR" "web.$NAMESPACE.svc.cluster.local"
passed "DNS and services"
[ "$("$CLUSTER" node-exec "$FAR_NODE" hostname)" = "$FAR_NODE" ] || die "node-exec answers nothing" "cluster status"
passed "node-exec on $FAR_NODE"

"$CLUSTER" node-link "$FAR_NODE" down
if fetch "$NEAR" "$FAR_IP:8080" 2 >/dev/null 2>&1; then die "$FAR_NODE is still reached with its link down" "look at provider_node_link"; fi
passed "link of $FAR_NODE down: its pod is cut off"
"$CLUSTER" node-link "$FAR_NODE" up
wait_for 30 "pod on $FAR_NODE after its link came up" fetch "$NEAR" "$FAR_IP:8080" 2
passed "link of $FAR_NODE up: reached again"

"$CLUSTER" control-plane stop
if kubectl --request-timeout=2s get pods >/dev/null 2>&1; then die "the API server answers after 'control-plane stop'" "look at provider_control_plane"; fi
passed "API server stopped"
"$CLUSTER" control-plane start
wait_for 60 "three nodes Ready again" sh -c "[ \$('$(toolset_bin)/kubectl' get nodes --no-headers | awk '\$2 == \"Ready\"' | wc -l) -ge 3 ]"
[ "$(fetch "$NEAR" "$FAR_IP:8080")" = "$FAR_NODE" ] || die "pods lost their network with the API server" "kubectl -n $NAMESPACE get pods -o wide"
passed "API server started, ${#PODS[@]} nodes Ready"
