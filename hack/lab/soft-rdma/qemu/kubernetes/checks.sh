# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154  # programs of jq; what ../kubernetes.sh has set
# What the lane shows, step by step.

NAMESPACE=inference
PATIENCE=${PATIENCE:-600}  # seconds, for each step
SHARED_CPUS=(0-1 2-3)  # of each NUMA node: no pod has exclusive ones
PAGES=(--page-bytes 65536 --pages 64 --window 64 --batch 16)

# What is wanted is said while the guest boots.
objects_up() {
  kubectl apply -f "$FABRIC/multus.yaml" >/dev/null
  kubectl wait --for=condition=Established --timeout=60s crd --all >/dev/null
  kubectl create namespace $NAMESPACE >/dev/null
}

check_all() {
  await "the guest is a Ready node" node_is_ready
  await "Multus runs there" rolled_out kube-system kube-multus-ds
  # Not before: a pod that is made without Multus has no interfaces of rails, and is not made anew.
  sed "s/@VERSION@/$VERSION/" "$QEMU/kubernetes/cluster.yaml" | kubectl apply -f - >/dev/null
  await "the plug-in that the operator renders offers both rails' devices" devices_offered
  await "two nodes of the cache run" nodes_run
  conditions_show
  placement_shows 0
  placement_shows 1
  route_shows 0
  route_shows 1
  pages_travel 0 1
  pages_travel 1 0
  lost_packets_show
}

# await WHAT CMD...: as wait_for, but ends when the guest does. A busy host makes a slow emulation several times slower.
await() {
  local what=$1 end=$((SECONDS + PATIENCE))
  shift
  until "$@" >/dev/null 2>&1; do
    kill -0 "$guest" 2>/dev/null || die "the guest ended while waiting until $what" "see $LOGS/guest.log"
    [ "$SECONDS" -lt "$end" ] || die "not within $PATIENCE s: $what" "see $LOGS and $CLUSTER_DIR/guest/log"
    sleep 1
  done
  note "$what ($SECONDS s)"
}

# expect WHAT CMD...
expect() {
  local what=$1
  shift
  "$@" >/dev/null || die "not so: $what" "see $LOGS and $CLUSTER_DIR/guest/log"
  note "$what"
}

node_is_ready() { kubectl get node "$NODE" --no-headers | awk '$2 != "Ready" {exit 1}'; }

rolled_out() { kubectl -n "$1" get daemonset "$2" -o json | jq -e '.status | .desiredNumberScheduled == 1 and .numberReady == 1'; }

devices_offered() {
  kubectl get node "$NODE" -o json | jq -e '.status.allocatable | .["rdma/rail0"] == "4" and .["rdma/rail1"] == "4"'
}

cluster() { kubectl -n $NAMESPACE get peercachecluster kv -o json; }
condition() { cluster | jq -e --arg type "$1" --arg status "$2" 'any(.status.conditions[]; .type == $type and .status == $status)'; }
pod() { kubectl -n $NAMESPACE get pods -l "peercache.io/group=numa$1" -o json | jq -e '.items | if length == 1 then .[0] else error end'; }
pod_name() { pod "$1" | jq -r .metadata.name; }
runs() { pod "$1" | jq -e 'any(.status.conditions[]; .type == "Ready" and .status == "True")'; }
nodes_run() { runs 0 && runs 1; }
status() { curl -sf "http://$(pod "$1" | jq -r .status.podIP):31997/v1/status"; }

conditions_show() {
  local type
  for type in Available Ready NUMAAligned RailsHealthy DevicesAvailable NetworksResolved; do
    await "condition $type is True" condition $type True
  done
  cluster | jq -r '.status.conditions[] | "      \(.type) \(.status) \(.reason): \(.message)"' | cut -c 1-160 >&2
}

# placement_shows NUMA-NODE: of the pod there, as the API server, the node itself and the kernel have it
placement_shows() {
  local numa=$1 cpus devices pool
  pod "$numa" >"$LOGS/pod-$numa.json"
  expect "numa$numa: Guaranteed, with the device of rail$numa alone, on the pod network, without privilege" \
    jq -e --arg resource "rdma/rail$numa" '.status.qosClass == "Guaranteed" and (.spec.hostNetwork | not)
      and ([.spec.containers[0].resources.limits | to_entries[] | select(.key | startswith("rdma/"))] == [{key: $resource, value: "1"}])
      and all(.spec.containers[], .spec.initContainers[]; .securityContext | (.privileged | not) and .allowPrivilegeEscalation == false
        and .capabilities.drop == ["ALL"])' "$LOGS/pod-$numa.json"
  cpus=$(in_pod "$numa" sh -c "grep -h Cpus_allowed_list: /proc/1/task/*/status" | cut -f 2 | sort | uniq -c | sort -rn | awk 'NR == 1 {print $2}')
  expect "numa$numa: most threads run on CPUs $cpus, all of NUMA node $numa that the kubelet shares out" \
    test "$cpus" = "${SHARED_CPUS[numa]}"
  devices=$(in_pod "$numa" sh -c 'cd /dev/infiniband && for d in uverbs*; do cat /sys/class/infiniband_verbs/$d/ibdev; done')
  expect "numa$numa: the plug-in gave it the device of its port alone: $devices" test "$devices" = "rxe$numa"
  pool=$(in_pod "$numa" grep peercache-pool /proc/1/numa_maps)
  expect "numa$numa: the kernel says of its pool: ${pool#* }" \
    eval '[[ $pool == *" bind:$numa "* && $pool != *" N$((1 - numa))="* ]]'
  status "$numa" >"$LOGS/status-$numa.json"
  expect "numa$numa: $(jq -c .numa "$LOGS/status-$numa.json")" \
    jq -e --argjson numa "$numa" --arg cpus "$cpus" '.numa | .node == $numa and .threads.cpus == $cpus and .memory.placement == "bound"' \
    "$LOGS/status-$numa.json"
}

# route_shows NUMA-NODE: the pod has the route that the cluster's networks name
route_shows() {
  local numa=$1
  expect "numa$numa: its pod reaches the other rail's subnet by the router" eval \
    '[ "$(in_pod $numa cat /proc/net/route | awk -v to="$(as_the_kernel "10.20.$((1 - numa)).0")" "\$2 == to {print \$1, \$3}")" = "rail$numa $(as_the_kernel "$(router_ip "$numa")")" ]'
}

as_the_kernel() { awk -F. '{printf "%02X%02X%02X%02X", $4, $3, $2, $1}' <<<"$1"; }  # an address in /proc/net/route

in_pod() { kubectl -n $NAMESPACE exec "$(pod_name "$1")" -c peercached -- "${@:2}"; }

# pages_travel FROM TO: set at one pod's socket, read at the other's, every byte checked
pages_travel() {
  local from=$1 to=$2 key=$((1000 * ($1 + 1)))
  perf "$from" set --seconds 0 --first-key $key >"$LOGS/set-$from"
  # Not at once, maybe: a call waits for queue pairs only so long, and is served over TCP then.
  await "numa$to reads all pages of numa$from over its rail" arrive "$to" $key
  expect "numa$to: no byte was wrong in $(wc -l <"$LOGS/get-$to") passes; READs brought $(cat "$LOGS/read-$to") bytes of the last" \
    jq -se 'all(.wrong == 0)' "$LOGS/get-$to"
}

# arrive NUMA-NODE KEY: one pass over the pages, whose bytes the rail has read, by way of the router
arrive() {
  local before after routed
  before=$(rail_bytes "$1") || return 1
  routed=$(routed_bytes)
  perf "$1" get --seconds 0 --first-key "$2" --check >"$LOGS/last-$1" || return 1
  cat "$LOGS/last-$1" >>"$LOGS/get-$1"
  after=$(rail_bytes "$1") || return 1
  echo $((after - before)) >"$LOGS/read-$1"
  jq -e '.hits == 64' "$LOGS/last-$1" && [ $((after - before)) -ge $((64 * 65536)) ] &&
    [ $(($(routed_bytes) - routed)) -ge $((64 * 65536)) ]
}

# Rails that are up and carry nothing are a fault that the cluster tells. Pages go another way meanwhile.
lost_packets_show() {
  roce_dropped
  await "while a switch drops RoCE, RailsHealthy is False: ReadsOverTCP" over_tcp
  # A batch that tries the rail is a miss: the first one, and one each time that the rail is tried again.
  await "every page of a pass comes by TCP meanwhile" whole_over_tcp
  expect "numa1: no byte was wrong in $(wc -l <"$LOGS/tcp-1") passes meanwhile" jq -se 'all(.wrong == 0)' "$LOGS/tcp-1"
  roce_forwarded
  await "when it does no more, pages go over the rails, and RailsHealthy is True" over_rails
  expect "numa1: no byte was wrong since" jq -se 'all(.wrong == 0)' "$LOGS/get-1"
}

# The operator knows of the last ten seconds, and judges from 512 pages on. It looks twice a minute, and when an object of the
# cluster has changed.
over_tcp() {
  read_over_tcp 5 || return 1
  nudge
  cluster | jq -e 'any(.status.conditions[]; .type == "RailsHealthy" and .reason == "ReadsOverTCP")'
}

over_rails() {
  perf 1 get --seconds 5 --first-key 1000 --check >>"$LOGS/get-1" || return 1
  nudge
  arrive 1 1000 && condition RailsHealthy True
}

read_over_tcp() { perf 1 get --seconds "$1" --first-key 1000 --check >>"$LOGS/tcp-1"; }  # read_over_tcp SECONDS; 0: one pass
whole_over_tcp() { read_over_tcp 0 && jq -se 'last | .hits == .pages' "$LOGS/tcp-1"; }

nudge() { kubectl -n $NAMESPACE annotate --overwrite configmap kv-device-plugin "looked-at=$SECONDS" && sleep 1; }

perf() {  # perf NUMA-NODE set|get OPTION...: in the pod, as an engine of that machine
  in_pod "$1" peercache-perf "$2" --socket "/run/peercache/numa$1.sock" "${PAGES[@]}" "${@:3}"
}

rail_bytes() { status "$1" | jq '.transport.rails[0].read_bytes'; }
