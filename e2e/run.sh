#!/usr/bin/env bash
# The end-to-end suite from nothing: cluster, images, tests. The cluster stays up; run it again to go on.
#
#   e2e/run.sh                                  all specs, about a quarter of an hour
#   e2e/run.sh -ginkgo.focus='killed|rolled'    some of them; arguments go to the test binary
#
# One run at a time: another on the same cluster is refused, whichever way it comes there.
# With KUBECONFIG and PEERCACHE_CLUSTER_HOOKS set, that cluster is used as it is: it must have the images.
# Results: ${ARTIFACTS:-e2e/out}: the table of scenarios, a JUnit report, and logs after a failure.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../hack/lib.sh"
. "$HERE/../hack/lab/cluster/toolset.sh"
. "$HERE/../hack/release/images/targets.sh"

"$HERE/../hack/dev/deps.sh" --cluster

BIN=$("$HERE/../hack/lab/cluster/build.sh" --bin-dir)
LOCKS=/var/tmp/peercache-e2e

# Two runs would cut each other's links and stop each other's API server, and each begins by removing what the other made.
lock() {  # lock FD NAME: as long as this run, and whoever holds FD, lives
  local file=$LOCKS/$2.lock
  mkdir -p "$LOCKS"
  touch "$file"
  eval "exec $1<'$file'"
  flock -n "$1" || die "another run of the end-to-end tests uses this cluster" \
    "wait for it, or stop it (fuser -v $file), or take another cluster"
}

# Whatever path, name or address leads there: a cluster is who signs for it.
cluster_identity() {
  KUBECONFIG=$1 "$BIN/kubectl" config view --raw --minify --flatten \
    -o jsonpath='{.clusters[0].cluster.certificate-authority-data}{"\n"}{.clusters[0].cluster.server}{"\n"}' |
    awk 'NF {print; exit}' | sha256sum | cut -c1-16
}

if [ -n "${PEERCACHE_CLUSTER_HOOKS:-}" ]; then
  first=${KUBECONFIG:-}
  [ -f "${first%%:*}" ] || die "KUBECONFIG='${KUBECONFIG:-}' is no file" "name the cluster's kubeconfig, or unset PEERCACHE_CLUSTER_HOOKS"
  lock 6 "$(cluster_identity "$KUBECONFIG")"
else
  export PEERCACHE_CLUSTER_HOOKS=$PEERCACHE_ROOT/hack/lab/cluster/cluster
  folder=$(realpath -m "${PEERCACHE_CLUSTER_DIR:-/var/tmp/peercache-cluster}")
  # Who comes up at the same time, and who uses what `up` may replace. Then what it has become.
  lock 5 "${folder//\//-}"
  [ ! -s "$folder/kubeconfig" ] || lock 6 "$(cluster_identity "$folder/kubeconfig")"
  "$PEERCACHE_CLUSTER_HOOKS" up >/dev/null 5<&- 6<&-  # whose daemons stay
  KUBECONFIG=$("$PEERCACHE_CLUSTER_HOOKS" kubeconfig)
  lock 6 "$(cluster_identity "$KUBECONFIG")"
  "$HERE/../hack/release/images/build-images.sh"
  "$HERE/../hack/lab/cluster/monitoring/images.sh" >/dev/null
  step "loading the images into the cluster"
  "$HERE/../hack/release/images/load-images.sh"
  PEERCACHE_BUILD=$(cat "$(image_archive operator).inputs")
  # Images are of a commit where the work tree is; CI's must be.
  if [ -n "${CI:-}" ] || [ -z "$(git -C "$PEERCACHE_ROOT" status --porcelain)" ]; then
    "$HERE/../hack/release/provenance.sh"
    "$HERE/../hack/release/sbom.sh"
    export PEERCACHE_PROVENANCE=$PEERCACHE_ROOT/dist/release
  fi
fi
export KUBECONFIG PEERCACHE_E2E_LOCK=6 PEERCACHE_BUILD="${PEERCACHE_BUILD:-}" ARTIFACTS="${ARTIFACTS:-$HERE/out}" PATH="$PEERCACHE_ROOT/bin:$BIN:$PATH"

mkdir -p "$ARTIFACTS"
step "compiling the suite"
(cd "$PEERCACHE_ROOT" && nice go test -c -tags e2e -o "$PEERCACHE_CACHE/e2e.test" ./e2e &&
  nice make -s build-kubectl)
step "running it"
cd "$HERE"
[ -t 1 ] || set -- -ginkgo.no-color "$@"
# The specs whose containers, or they, have that name: nothing in it is special to a regular expression then.
# shellcheck disable=SC2001
[ -z "${ONLY:-}" ] || set -- "-ginkgo.focus=$(sed 's/[^[:alnum:]_]/[&]/g' <<<"$ONLY")" "$@"
exec "$PEERCACHE_CACHE/e2e.test" -test.timeout 60m -test.v -ginkgo.junit-report="$ARTIFACTS/junit.xml" "$@"
