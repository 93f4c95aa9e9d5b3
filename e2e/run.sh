#!/usr/bin/env bash
# The end-to-end suite from nothing: cluster, images, tests. The cluster stays up; run it again to go on.
#
#   e2e/run.sh                                  all specs, about a quarter of an hour
#   e2e/run.sh -ginkgo.focus='killed|rolled'    some of them; arguments go to the test binary
#
# One run at a time: another on the same cluster is refused.
# With KUBECONFIG and PEERCACHE_CLUSTER_HOOKS set, that cluster is used as it is: it must have the images.
# Results: ${ARTIFACTS:-e2e/out}: the table of scenarios, a JUnit report, and logs after a failure.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../hack/lib.sh"
. "$HERE/../hack/cluster/toolset.sh"
. "$HERE/../hack/images/targets.sh"

"$HERE/../hack/deps.sh" --cluster

# Two runs would cut each other's links and stop each other's API server, and each begins by removing what the other made.
if [ -n "${PEERCACHE_CLUSTER_HOOKS:-}" ]; then
  LOCK=${KUBECONFIG:-}
  LOCK=${LOCK%%:*}
  [ -f "$LOCK" ] || die "KUBECONFIG='${KUBECONFIG:-}' is no file" "name the cluster's kubeconfig, or unset PEERCACHE_CLUSTER_HOOKS"
else
  LOCK=${PEERCACHE_CLUSTER_DIR:-/var/tmp/peercache-cluster}/e2e.lock
  mkdir -p "${LOCK%/*}"
  touch "$LOCK"
fi
exec 6<"$LOCK"
flock -n 6 || die "another run of the end-to-end tests uses this cluster" \
  "wait for it, or stop it (fuser -v $LOCK), or take another cluster"

BIN=$("$HERE/../hack/cluster/build.sh" --bin-dir)
if [ -z "${PEERCACHE_CLUSTER_HOOKS:-}" ]; then
  export PEERCACHE_CLUSTER_HOOKS=$PEERCACHE_ROOT/hack/cluster/cluster
  "$PEERCACHE_CLUSTER_HOOKS" up >/dev/null 6<&-  # whose daemons stay
  KUBECONFIG=$("$PEERCACHE_CLUSTER_HOOKS" kubeconfig)
  "$HERE/../hack/images/build-images.sh"
  "$HERE/../hack/cluster/monitoring/images.sh" >/dev/null
  step "loading the images into the cluster"
  "$HERE/../hack/images/load-images.sh"
  PEERCACHE_BUILD=$(cat "$(image_archive operator).inputs")
fi
export KUBECONFIG PEERCACHE_BUILD="${PEERCACHE_BUILD:-}" ARTIFACTS="${ARTIFACTS:-$HERE/out}" PATH="$PEERCACHE_ROOT/bin:$BIN:$PATH"

mkdir -p "$ARTIFACTS"
step "compiling the suite"
(cd "$PEERCACHE_ROOT" && nice go test -c -tags e2e -o "$PEERCACHE_CACHE/e2e.test" ./e2e &&
  nice make -s build-kubectl)
step "running it"
cd "$HERE"
[ -t 1 ] || set -- -ginkgo.no-color "$@"
exec "$PEERCACHE_CACHE/e2e.test" -test.timeout 40m -test.v -ginkgo.junit-report="$ARTIFACTS/junit.xml" "$@"
