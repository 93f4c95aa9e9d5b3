# shellcheck shell=bash
# What the cluster is made of: one row per program, built from the Go module proxy.
# Sourced by build.sh (which builds the rows) and by whoever needs to know where a program lies.
#
# A tool is a folder tools/<tool> with its own go.mod and go.sum, so that each is pinned by itself and
# none of them weighs on the operator's go.mod. All pin the same version of what they share
# (check-versions.sh): client-go, grpc and the like are then compiled once, for the tools and for the operator.

# Kubernetes is what tools/kube pins, or tools/kube-1.31 where KUBERNETES=1.31 asks for it.
KUBE=kube${KUBERNETES:+-$KUBERNETES}
TOOLS_DIR=$PEERCACHE_ROOT/hack/lab/cluster/tools
[ -f "$TOOLS_DIR/$KUBE/go.mod" ] ||
  die "KUBERNETES='$KUBERNETES' is not among the versions that are tested" "name one of: $(cd "$TOOLS_DIR" && echo kube-1.*/ | sed 's/kube-//g; s,/,,g'); or unset it"
KUBE_VERSION=$(awk '$2 == "k8s.io/kubernetes" { print $3 }' "$TOOLS_DIR/$KUBE/go.mod")
KUBE_MINOR=${KUBE_VERSION#v1.}
KUBE_MINOR=${KUBE_MINOR%%.*}

# tool  program  package
TOOLSET="
etcd          etcd                     go.etcd.io/etcd/server/v3
mkimage       mkimage                  .
$KUBE        kubeadm                  k8s.io/kubernetes/cmd/kubeadm
$KUBE        kubectl                  k8s.io/kubernetes/cmd/kubectl
$KUBE        kube-apiserver           k8s.io/kubernetes/cmd/kube-apiserver
$KUBE        kube-controller-manager  k8s.io/kubernetes/cmd/kube-controller-manager
$KUBE        kube-scheduler           k8s.io/kubernetes/cmd/kube-scheduler
$KUBE        kubelet                  k8s.io/kubernetes/cmd/kubelet
$KUBE        kube-proxy               k8s.io/kubernetes/cmd/kube-proxy
containerd    containerd               github.com/containerd/containerd/v2/cmd/containerd
containerd    containerd-shim-runc-v2  github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
containerd    ctr                      github.com/containerd/containerd/v2/cmd/ctr
coredns-min   coredns                  .
multus        multus-daemon            gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-daemon
multus        multus-shim              gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-shim
multus        passthru                 gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/passthru-cni
multus        install_multus           gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/install_multus
whereabouts   whereabouts              github.com/k8snetworkplumbingwg/whereabouts/cmd
rdma-plugin   rdma-plugin              .
dra-driver    dra-driver               .
helm          helm                     helm.sh/helm/v3/cmd/helm
kind          kind                     sigs.k8s.io/kind
"

# What a cluster of kind needs: its machines bring Kubernetes along.
# shellcheck disable=SC2034  # build.sh reads it
KIND_TOOLSET="
mkimage       mkimage                  .
$KUBE        kubectl                  k8s.io/kubernetes/cmd/kubectl
helm          helm                     helm.sh/helm/v3/cmd/helm
kind          kind                     sigs.k8s.io/kind
"

# What the add-on monitoring needs besides, built when it is asked for.
# shellcheck disable=SC2034  # build.sh reads it
MONITORING_TOOLSET="
prometheus    prometheus                  github.com/prometheus/prometheus/cmd/prometheus
prometheus    prometheus-operator         github.com/prometheus-operator/prometheus-operator/cmd/operator
prometheus    prometheus-config-reloader  github.com/prometheus-operator/prometheus-operator/cmd/prometheus-config-reloader
"

# What make test-rdma-kubernetes needs besides: the real plug-in for shared RDMA devices.
# shellcheck disable=SC2034  # build.sh reads it
RDMA_TOOLSET="
rdma-shared-plugin  k8s-rdma-shared-dp  github.com/Mellanox/k8s-rdma-shared-dev-plugin/cmd/k8s-rdma-shared-dp
"

# What make push needs: it copies images, and Helm the chart.
# shellcheck disable=SC2034  # build.sh reads it
PUSH_TOOLSET="
crane         crane                    github.com/google/go-containerregistry/cmd/crane
helm          helm                     helm.sh/helm/v3/cmd/helm
"

# The registry that tests push to.
# shellcheck disable=SC2034  # build.sh reads it
REGISTRY_TOOLSET="
registry      registry                 .
"

# What the add-on policies needs: what enforces NetworkPolicies.
# shellcheck disable=SC2034  # build.sh reads it
POLICIES_TOOLSET="
kube-router   kube-router              .
"

# What the add-on lws needs: the controllers of LeaderWorkerSets.
# shellcheck disable=SC2034  # build.sh reads it
LWS_TOOLSET="
lws           lws                      sigs.k8s.io/lws/cmd
"

# What `make test-envtest KUBERNETES=1.31` and the like need.
# shellcheck disable=SC2034  # build.sh reads it
API_TOOLSET=$(awk '$2 ~ /^(etcd|kube-apiserver|kube-controller-manager|kubectl|helm)$/' <<<"$TOOLSET")

# The Go build cache is keyed on the flags: one set for everything, the operator's own build included.
# Debug information would be stripped at the end (-s -w) and costs the compiler a fifth of its time.
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false'

tool_ldflags() {  # tool_ldflags TOOL
  local flags="-s -w" pkg
  if [ "$1" = "$KUBE" ]; then
    for pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
      flags+=" -X $pkg.gitVersion=$KUBE_VERSION -X $pkg.gitMajor=1 -X $pkg.gitMinor=$KUBE_MINOR"
      flags+=" -X $pkg.gitTreeState=clean -X $pkg.buildDate=1970-01-01T00:00:00Z"
    done
  fi
  echo "$flags"
}

# Prometheus finds targets in two dozen clouds, whose libraries are most of it; here it needs Kubernetes.
tool_tags() {  # tool_tags TOOL
  [ "$1" != prometheus ] || echo remove_all_sd,enable_kubernetes_sd
}

# A module's name is among it, so it stays when its folder moves: nobody imports these, and Kubernetes takes half an hour.
tool_bin() {  # tool_bin TOOL: the folder of its programs; named by all that decides their content
  local hash
  hash=$({ cat "$TOOLS_DIR/$1"/{go.mod,go.sum}; cat "$TOOLS_DIR/$1"/*.go 2>/dev/null || true
           echo "$CGO_ENABLED $GOFLAGS $(tool_ldflags "$1")$(tool_tags "$1") ${GO_VERSION:=$(go env GOVERSION)}"; } |
         sha256sum | cut -c1-64)
  echo "$PEERCACHE_CACHE/$1/$hash/bin"
}

# toolset_bin: one folder with a link to every program (PATH, and envtest's KUBEBUILDER_ASSETS).
toolset_bin() {
  local tool dirs=''
  for tool in $(awk 'NF{print $1}' <<<"$TOOLSET" | uniq); do dirs+="$(tool_bin "$tool") "; done
  echo "$PEERCACHE_CACHE/toolset/$(sha256sum <<<"$dirs" | cut -c1-64)/bin"
}

module_dir() {  # module_dir TOOL MODULE: its sources, at the version that the tool is built from
  (cd "$TOOLS_DIR/$1" && retried go mod download -json "$2" | jq -er .Dir) ||
    die "module $2 cannot be had" "is GOPROXY=$(go env GOPROXY) reachable?"
}
