# shellcheck shell=bash
# The images, their names, and what each is made from.

TARGETS=(operator dataplane client engine embedded)
VERSION=$(cat "$PEERCACHE_ROOT/VERSION")
REGISTRY=${PEERCACHE_REGISTRY:-ghcr.io/peercache/peercache}
ARCHIVES=$PEERCACHE_CACHE/images

image_name() { echo "$REGISTRY/$1:$VERSION"; }
# image_archive TARGET [ARCHITECTURE]: this machine's has the plain name.
image_archive() { echo "$ARCHIVES/$1-$VERSION${2:+-$2}.tar"; }

target_sources() {  # target_sources TARGET: paths below the root that its stages COPY
  local cpp="dataplane/CMakeLists.txt dataplane/CMakePresets.json dataplane/cmake dataplane/src"
  case $1 in
    operator) echo go.mod go.sum api operator ;;
    dataplane) echo "$cpp" dataplane/bench/CMakeLists.txt dataplane/bench/perf ;;
    client) echo "$cpp" dataplane/python/{CMakeLists.txt,pybind11.sh,bindings,peercache} ;;
    engine) echo e2e/engine ;;
    embedded) target_sources client ;;
    *) die "unknown image '$1'" "use: ${TARGETS[*]}" ;;
  esac
}

foreign_archives() { find "$ARCHIVES" -maxdepth 1 -name "$1-$VERSION-*.tar" | LC_ALL=C sort; }

# image_archives TARGET: one for each architecture that it has been built for, this machine's first; all must be of this tree.
image_archives() {
  local hash archive
  hash=$(inputs_hash "$1")
  for archive in "$(image_archive "$1")" $(foreign_archives "$1"); do
    if [ ! -f "$archive" ] || [ "$(cat "$archive.inputs" 2>/dev/null)" != "$hash" ]; then
      die "image $1 has not been built of this tree: $archive" "make images IMAGES=$1, with ARCH=... for another architecture, or remove the archive"
    fi
    echo "$archive"
  done
}

needed_stages() {  # needed_stages TARGET: the Dockerfile without the stages that TARGET does not use
  awk -v target="$1" -f "$PEERCACHE_ROOT/hack/release/images/stages.awk" "$PEERCACHE_ROOT/Dockerfile" "$PEERCACHE_ROOT/Dockerfile"
}

# inputs_hash TARGET: the content (and names) of all that can change the image. Tests cannot.
inputs_hash() {
  local sources
  sources=$(target_sources "$1")
  (
    cd "$PEERCACHE_ROOT" || exit
    needed_stages "$1"
    # shellcheck disable=SC2086  # a list of paths
    find .dockerignore VERSION $sources -type f \
      ! -name '*_test.go' ! -name '*_test.cc' ! -name '*.md' ! -path '*/build/*' ! -path '*/__pycache__/*' \
      ! -path '*/.*_cache/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    image_name "$1"
  ) | sha256sum | cut -c1-64
}
