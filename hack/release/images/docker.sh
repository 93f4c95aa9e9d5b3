# shellcheck shell=bash
# Builder `docker`: an engine that pulls its base images itself.

builder_prepare() {
  need docker
  [ -z "$1" ] || docker builder prune -f >/dev/null
}

builder_cleanup() { emulate_arm64_no_more; }

build_image() {
  DOCKER_BUILDKIT=1 docker build --progress=plain ${FOREIGN:+--platform "linux/$FOREIGN"} --target "$1" -t "$(image_name "$1")" "$PEERCACHE_ROOT"
}

save_image() { docker save -o "$2" "$(image_name "$1")"; }
