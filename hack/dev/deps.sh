#!/usr/bin/env bash
# Installs all that building and testing PeerCache needs on Debian 12 or 13, or a recent Ubuntu (amd64, arm64).
# Idempotent: a few seconds when everything is there. Needs root only when packages are missing.
#
#   hack/dev/deps.sh              packages, Go, Python linters
#   hack/dev/deps.sh --cluster    what `make demo` and `make e2e` need: C++ and Python are compiled inside of images only
#   ARCH=arm64 hack/dev/deps.sh   also the emulator of images for that architecture
#
# ruff and mypy land in ${PEERCACHE_CACHE:-~/.cache/peercache}/bin, which the Makefile has on its PATH.
# Programs that are built from Go modules (golangci-lint, Kubernetes) are built when first needed.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../lib.sh"

GO_VERSION=1.26.8
case $(uname -m) in
  aarch64) GO_ARCH=arm64 GO_ZIP_SHA256=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99 ;;
  *) GO_ARCH=amd64 GO_ZIP_SHA256=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7 ;;
esac
PYTHON_LINTERS=$HERE/python-linters.txt  # ruff and mypy

PACKAGES=(  # what a cluster and its images need
  # tools of these scripts
  bash ca-certificates curl git jq make python3 unzip util-linux xz-utils
  # nodes of the local cluster, and the images they run
  runc containernetworking-plugins iproute2 nftables iptables ipset conntrack socat ethtool kmod
  gcc libc6-dev procps
  # images without a registry: base images from packages, CPython headers from Maven Central
  buildah mmdebstrap maven
)
# The browser of the demo's picture and of the dashboard's tests. Ubuntu has it as a snap only.
. /etc/os-release
[ "$ID" = ubuntu ] || PACKAGES+=(chromium)
# Images are made of Debian's packages, which apt checks with these keys.
[ "$ID" = debian ] || PACKAGES+=(debian-archive-keyring)
[ -z "${ARCH:-}" ] || PACKAGES+=(qemu-user-static)
DEVELOPMENT_PACKAGES=(  # what building and testing outside of images needs besides
  g++ cmake ninja-build ccache pkg-config clang clang-format libclang-rt-dev shellcheck
  libibverbs-dev librdmacm-dev libnuma-dev liburing-dev libasio-dev libspdlog-dev libfmt-dev
  nlohmann-json3-dev libcli11-dev libxxhash-dev prometheus-cpp-dev libmicrohttpd-dev libssl-dev openssl
  libgtest-dev libgmock-dev libbenchmark-dev
  # the commit of hack/lab/former
  libcpp-httplib-dev
  # RDMA without a NIC: the guest's kernel and what runs in it; emulated machines
  flex bison bc patch ibverbs-providers ibverbs-utils rdmacm-utils perftest busybox-static
  qemu-system-x86 cpio numactl
  # file systems that tests fill
  e2fsprogs mount
  # the model checker of the reclamation protocol
  spin
  # Python client, and the SGLang engine that tests it
  pybind11-dev python3-dev python3-pip python3-venv python3-numpy python3-psutil
  # systemd-analyze, for the unit of bare metal
  systemd
  # charts of measurements; what the disk tier is measured beside
  python3-matplotlib fio iperf3
)
# Ubuntu 24.04 has none: dataplane/python/test.sh takes PyPI's there.
[ "${VERSION_CODENAME:-}" = noble ] || DEVELOPMENT_PACKAGES+=(python3-torch)
[ "${1:-}" = --cluster ] || PACKAGES+=("${DEVELOPMENT_PACKAGES[@]}")

# Of its thousands of lines, those on what was asked for.
apt_get() {
  retried logged "$PEERCACHE_CACHE/apt-$1.log" "^(Need to get|Fetched|E:|Setting up ($(paste -sd'|' <<<"$missing" | sed 's/[+.]/\\&/g')) )" \
    apt-get -q -o Acquire::Retries=3 "$@" ||
    die "apt-get $1 failed" "see the messages above and $PEERCACHE_CACHE/apt-$1.log; are the package sources in /etc/apt reachable?"
}

install_packages() {
  local missing
  missing=$(comm -23 <(printf '%s\n' "${PACKAGES[@]}" | sort -u) \
    <(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' | awk '$2 == "installed" {sub(/:.*/, "", $1); print $1}' | sort -u))
  if [ -z "$missing" ]; then note "packages: all ${#PACKAGES[@]} present"; return; fi
  need_root
  step "installing packages: $(paste -sd' ' <<<"$missing")"
  export DEBIAN_FRONTEND=noninteractive
  mkdir -p "$PEERCACHE_CACHE"
  apt_get update
  # shellcheck disable=SC2086  # a list
  apt_get install -y --no-install-recommends $missing
}

# Go's own module proxy serves whole tool chains, and is needed for everything else here anyway.
install_go() {
  local current dir zip proxy
  current=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
  if [ -n "$current" ] && printf '%s\n' "go$GO_VERSION" "$current" | sort -VC; then note "go: $current"; return; fi
  [[ $(uname -m) =~ ^(x86_64|aarch64)$ ]] ||
    die "Go $GO_VERSION is missing, and not known for $(uname -m) here" "install Go >= $GO_VERSION from go.dev/dl"
  step "installing Go $GO_VERSION (found: ${current:-none})"
  dir=$PEERCACHE_CACHE/go$GO_VERSION
  zip=$dir.zip
  proxy=${GOPROXY:-https://proxy.golang.org}
  proxy=${proxy%%[,|]*}
  mkdir -p "$PEERCACHE_CACHE"
  retried curl -fsSL -o "$zip" "$proxy/golang.org/toolchain/@v/v0.0.1-go$GO_VERSION.linux-$GO_ARCH.zip" ||
    die "Go $GO_VERSION could not be downloaded from $proxy" "set GOPROXY to a proxy that is reachable, or install Go >= $GO_VERSION by hand"
  sha256sum --quiet -c <<<"$GO_ZIP_SHA256  $zip" || die "$zip is not what it should be" "remove it and try again"
  rm -rf "$dir" "$dir.new"
  unzip -q "$zip" -d "$dir.new"
  mv "$dir.new/golang.org/toolchain@v0.0.1-go$GO_VERSION.linux-$GO_ARCH" "$dir"
  rm -rf "$dir.new" "$zip"
  chmod -R +x "$dir/bin" "$dir/pkg/tool"   # module archives carry no permissions
  if [ -w /usr/local/bin ]; then
    ln -sfn "$dir/bin/go" /usr/local/bin/go
    ln -sfn "$dir/bin/gofmt" /usr/local/bin/gofmt
  fi
  hash -r
  current=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
  [ "$current" = "go$GO_VERSION" ] || die "'go' is still ${current:-missing}" "put $dir/bin first on your PATH"
}

# What the tests and linters of Go are built of: `go` itself gives up when the proxy refuses once.
fetch_modules() {
  local module
  for module in . hack/release/olm hack/lab/cluster/tools/rdma-shared-plugin; do
    (cd "$PEERCACHE_ROOT/$module" && retried go mod download) ||
      die "the modules of $module/go.mod cannot be had" "see the messages above; is GOPROXY=$(go env GOPROXY) reachable?"
  done
}

install_linters() {
  local bin=$PEERCACHE_CACHE/bin dir
  mkdir -p "$bin"
  dir=$PEERCACHE_CACHE/python-linters/$(sha256sum <"$PYTHON_LINTERS" | cut -c1-16)
  if [ ! -x "$dir/bin/mypy" ]; then
    step "installing ruff and mypy"
    rm -rf "$dir"
    /usr/bin/python3 -m venv "$dir"
    retried "$dir/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: -r "$PYTHON_LINTERS" ||
      die "pip cannot install $PYTHON_LINTERS" "check the network and the package index (pip config list)"
  fi
  ln -sfn "$dir/bin/ruff" "$bin/ruff"
  ln -sfn "$dir/bin/mypy" "$bin/mypy"
  note "linters: $bin"
}

# fetch_promtool DIR: Debian 13 has a package of that name, Debian 12 has it in prometheus.
fetch_promtool() {
  local get=(apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3) package=promtool
  cd "$1"
  apt-cache show prometheus >/dev/null 2>&1 || "${get[@]}" update
  apt-cache show promtool >/dev/null 2>&1 || package=prometheus
  { "${get[@]}" download $package || { "${get[@]}" update && "${get[@]}" download $package; }; } &&
    dpkg-deb -x ${package}_*.deb .
}

# Out of the package, without installing it: prometheus would also start one.
install_promtool() {
  local bin=$PEERCACHE_CACHE/bin dir
  if PATH=$bin:$PATH command -v promtool >/dev/null; then return; fi
  step "fetching promtool"
  mkdir -p "$bin"
  dir=$(mktemp -d "$PEERCACHE_CACHE/promtool.XXXXXX")
  retried logged "$PEERCACHE_CACHE/promtool.log" '^E: ' fetch_promtool "$dir" ||
    die "promtool could not be had from the packages promtool and prometheus" "see the messages above, or put promtool of any Prometheus release on your PATH"
  install -m 0755 "$dir/usr/bin/promtool" "$bin/promtool"
  rm -rf "$dir"
}

install_packages
install_go
[ "${1:-}" = --cluster ] || { fetch_modules; install_linters; install_promtool; }
