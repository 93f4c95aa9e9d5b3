#!/usr/bin/env bash
# Builds what e2e/run.sh needs and no cluster is needed for: Kubernetes, the images, the suite. Half an
# hour of two processors when cold, seconds when nothing has changed.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../hack/lib.sh"
. "$HERE/../hack/lab/cluster/toolset.sh"

"$HERE/../hack/dev/deps.sh" --cluster
"$HERE/../hack/lab/cluster/build.sh"
"$HERE/../hack/lab/cluster/images.sh" >/dev/null
"$HERE/../hack/release/images/build-images.sh"
"$HERE/../hack/lab/cluster/monitoring/images.sh" >/dev/null
"$HERE/../hack/lab/cluster/registry/images.sh" >/dev/null
"$HERE/../hack/lab/cluster/policies/images.sh" >/dev/null
"$HERE/../hack/lab/cluster/lws/images.sh" >/dev/null
"$HERE/../hack/lab/cluster/build.sh" --push >/dev/null
# Of test-rdma-kubernetes.
"$HERE/../hack/lab/cluster/build.sh" --rdma >/dev/null
"$HERE/../hack/lab/cluster/fabric/images.sh" >/dev/null
"$HERE/../hack/lab/soft-rdma/qemu/kernel.sh" >/dev/null
step "compiling the suite"
(cd "$PEERCACHE_ROOT" && nice go test -c -tags e2e -o /dev/null ./e2e)
