# shellcheck shell=bash
# Builder `buildah`: no daemon. Layers are kept, so that only changed steps run again. Packages, Go
# modules and compiler results come through the machine's own configuration and caches, mounted below
# /host; nothing of it stays in the images.

. "$HERE/base-images.sh"

BUILDAH=(buildah --root "$ARCHIVES/store" --runroot "$ARCHIVES/run" --storage-driver overlay)
export BUILDAH_ISOLATION=chroot TMPDIR=$ARCHIVES/tmp
SUFFIX=${FOREIGN:+-$FOREIGN}  # of images of another architecture: a name stands for one image in the store

builder_prepare() {
  need_root
  need buildah ccache
  mkdir -p "$ARCHIVES/tmp"
  clean_store
  [ -z "$1" ] || "${BUILDAH[@]}" rmi --prune >/dev/null
  base_images_ensure
}

# A build that failed leaves containers, and the store a mount, behind.
clean_store() {
  "${BUILDAH[@]}" rm --all >/dev/null
  umount "$ARCHIVES/store/overlay" 2>/dev/null || true
}

builder_cleanup() {
  clean_store
  emulate_arm64_no_more
}

host_args() {  # fills ARGS with what lets a step reach and reuse what the machine has
  local apt=$ARCHIVES/tmp/99host certs=/etc/ssl/certs/ca-certificates.crt name ccache
  # The machine's own: what it has compiled with the same compiler is not compiled again.
  ccache=$(ccache --get-config cache_dir)
  mkdir -p "$ccache"
  ARGS=(--volume "$ccache:/host/ccache" --build-arg CCACHE_DIR=/host/ccache)
  echo 'Acquire::Retries "3";' > "$apt"
  apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|ftp|Check|Retries)' >> "$apt" || true
  ARGS+=(--volume "$apt:/etc/apt/apt.conf.d/99host:ro")
  if command -v go >/dev/null; then
    mkdir -p "$(go env GOCACHE)" "$(go env GOMODCACHE)"
    ARGS+=(--volume "$(go env GOCACHE):/host/go-build" --build-arg GOCACHE=/host/go-build
           --volume "$(go env GOMODCACHE):/host/go-mod" --build-arg GOMODCACHE=/host/go-mod)
    for name in GOPROXY GOSUMDB GONOSUMDB; do
      [ -z "$(go env "$name")" ] || ARGS+=(--build-arg "$name=$(go env "$name")")
    done
  fi
  if [ -f "$certs" ]; then  # the machine may trust a proxy's authority that the base image does not know
    ARGS+=(--volume "$certs:/host/certs.crt:ro" --build-arg SSL_CERT_FILE=/host/certs.crt
           --build-arg PIP_CERT=/host/certs.crt)
  fi
  for name in index-url extra-index-url; do
    local value
    value=$(python3 -m pip config get "global.$name" 2>/dev/null) || continue
    name=${name//-/_}
    ARGS+=(--build-arg "PIP_${name^^}=$value")
  done
  for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || ARGS+=(--build-arg "$name=${!name}")
  done
}

build_image() {
  local ARGS dockerfile=$ARCHIVES/tmp/Dockerfile.$1
  host_args
  # Into the cache that the step sees: `go` itself gives up at the first refusal.
  [ "$1" != operator ] || ! command -v go >/dev/null || (cd "$PEERCACHE_ROOT" && retried go mod download) ||
    die "the operator's modules cannot be had" "is GOPROXY=$(go env GOPROXY) reachable?"
  needed_stages "$1" | of_architecture > "$dockerfile"
  logged "$ARCHIVES/tmp/$1.log" '^(\[[0-9/]+\] )?STEP .*: RUN |^\[[0-9]*0/[0-9]+\]' \
    nice "${BUILDAH[@]}" bud --layers --pull-never ${FOREIGN:+--platform "linux/$FOREIGN"} "${ARGS[@]}" --target "$1" \
    -f "$dockerfile" -t "$(image_name "$1")$SUFFIX" "$PEERCACHE_ROOT"
}

save_image() { "${BUILDAH[@]}" push -q "$(image_name "$1")$SUFFIX" "docker-archive:$2:$(image_name "$1")"; }
