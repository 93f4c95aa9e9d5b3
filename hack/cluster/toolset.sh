# shellcheck shell=bash
# What the cluster is made of: one row per program, built from the Go module proxy.
# Sourced by build.sh (which builds the rows) and by whoever needs to know where a program lies.
#
# A tool is a folder tools/<tool> with its own go.mod and go.sum, so that each is pinned by itself and
# none of them weighs on the operator's go.mod. All pin the same version of what they share
# (check-versions.sh): client-go, grpc and the like are then compiled once, for the tools and for the operator.

KUBE_VERSION=v1.36.3
TOOLS_DIR=$PEERCACHE_ROOT/hack/cluster/tools

# tool  program  package
TOOLSET="
etcd          etcd                     go.etcd.io/etcd/server/v3
mkimage       mkimage                  .
kube          kubeadm                  k8s.io/kubernetes/cmd/kubeadm
kube          kubectl                  k8s.io/kubernetes/cmd/kubectl
kube          kube-apiserver           k8s.io/kubernetes/cmd/kube-apiserver
kube          kube-controller-manager  k8s.io/kubernetes/cmd/kube-controller-manager
kube          kube-scheduler           k8s.io/kubernetes/cmd/kube-scheduler
kube          kubelet                  k8s.io/kubernetes/cmd/kubelet
kube          kube-proxy               k8s.io/kubernetes/cmd/kube-proxy
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

# What `make test-envtest KUBERNETES=1.31` and the like need: the programs of this version where a folder tools/kube-1.31
# pins them, and the others as above.
kubernetes_toolset() {  # kubernetes_toolset 1.31
  [[ $1 = 1.* && -f $TOOLS_DIR/kube-$1/go.mod ]] ||
    die "there is no Kubernetes $1 to test on" "name one of: $(cd "$TOOLS_DIR" && echo kube-1.*/ | sed 's/kube-//g; s,/,,g'); or none, for $KUBE_VERSION"
  awk -v tool="kube-$1" '$2 ~ /^(etcd|kube-apiserver|kube-controller-manager|kubectl|helm)$/ { sub(/^kube /, tool " "); print }' <<<"$TOOLSET"
}

# The Go build cache is keyed on the flags: one set for everything, the operator's own build included.
# Debug information would be stripped at the end (-s -w) and costs the compiler a fifth of its time.
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false'

tool_ldflags() {  # tool_ldflags TOOL
  local flags="-s -w" pkg version='' minor
  case $1 in
    kube) version=$KUBE_VERSION ;;
    kube-[0-9]*) version=$(awk '$2 == "k8s.io/kubernetes" { print $3 }' "$TOOLS_DIR/$1/go.mod") ;;
  esac
  if [ -n "$version" ]; then
    minor=${version#v1.}
    for pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
      flags+=" -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*}"
      flags+=" -X $pkg.gitTreeState=clean -X $pkg.buildDate=1970-01-01T00:00:00Z"
    done
  fi
  echo "$flags"
}

# Prometheus finds targets in two dozen clouds, whose libraries are most of it; here it needs Kubernetes.
tool_tags() {  # tool_tags TOOL
  [ "$1" != prometheus ] || echo remove_all_sd,enable_kubernetes_sd
}

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
