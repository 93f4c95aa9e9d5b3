# shellcheck shell=bash
# The Dockerfile's base images: pulled where a registry answers, else made here from packages under
# the same names. A stand-in has what the Dockerfile uses of the original, no more. See README.md.

DEBIAN_REPOSITORY=docker.io/library/debian

# Of the headers that python-headers.xml names, as headers_digest has it.
HEADERS_DIGEST=346533cf4a70d0adfffdedd32c91d8b4571f6800cb7e8f74bd1076c783fd9b4d

base_images() { sed -n 's/^\(FROM\|FROM --platform=[^ ]*\|ARG [A-Z_]*DEBIAN=\)[ ]*\(docker\.io[^ ]*\).*/\2/p' "$PEERCACHE_ROOT/Dockerfile" | sort -u; }

# Base images of another architecture, which stages without --platform use. In the store a name stands for one image, so they have their own.
foreign_base_images() {
  [ -z "$FOREIGN" ] || sed -n 's/^\(FROM\|ARG [A-Z_]*DEBIAN=\)[ ]*\(docker\.io[^ ]*\).*/\2/p' "$PEERCACHE_ROOT/Dockerfile" | sort -u | sed "s/\$/$SUFFIX/"
}

# A Dockerfile as it is read, with those names. Buildah before 1.29 sets no BUILDPLATFORM, and takes the platform of one stage for that
# of the next.
of_architecture() {
  sed ${FOREIGN:+-e "s#^FROM \([^ ]*/[^ ]*\|\\\${[A-Z_]*DEBIAN}\) #FROM --platform=linux/$FOREIGN \1$SUFFIX #"} \
    -e "s#\\\$BUILDPLATFORM#linux/$(machine_architecture)#"
}

base_images_ensure() {
  local image registry=unknown recipe
  recipe=$(cat "$HERE/base-images.sh" "$HERE/python-headers.xml" | sha256sum)
  if [ "$(cat "$ARCHIVES/base-images" 2>/dev/null)" != "$recipe" ]; then
    # Stand-ins that were made in another way would be taken for what they are not any more.
    for image in $(base_images) $(base_images | sed 's/$/-arm64/'); do "${BUILDAH[@]}" rmi -f "$image" >/dev/null 2>&1 || true; done
  fi
  # Debian comes first by its name: the others are built on it.
  for image in $(base_images) $(foreign_base_images); do
    if "${BUILDAH[@]}" inspect --type image "$image" >/dev/null 2>&1; then continue; fi
    if [ "$registry" != absent ]; then
      step "pulling $image"
      if pull_base_image "$image" >/dev/null 2>"$ARCHIVES/pull.log"; then continue; fi
      registry=absent
      note "no registry: $(tail -1 "$ARCHIVES/pull.log" | cut -c1-160)"
    fi
    step "making a stand-in for $image from packages"
    case $image in
      "$DEBIAN_REPOSITORY":*) stand_in_debian "$image" ;;
      */golang:*) stand_in_golang "$image" ;;
      */python:3.*) stand_in_python "$image" ;;
      *) die "no stand-in is known for base image $image" "add one to hack/release/images/base-images.sh, or build where it can be pulled" ;;
    esac
  done
  echo "$recipe" > "$ARCHIVES/base-images"
}

# A pull gives the name to the image of its architecture: this machine's has to have it at the end.
pull_base_image() {
  local name=${1%"$SUFFIX"}
  if [ "$name" != "$1" ]; then
    timeout 120 "${BUILDAH[@]}" pull -q --arch "$FOREIGN" "$name" || return
    "${BUILDAH[@]}" tag "$name" "$1" || return
  fi
  timeout 120 "${BUILDAH[@]}" pull -q "$name"
}

# stand_in NAME BASE STEP...: commits a container made from BASE; each STEP is a buildah command line
# in which @ stands for the container.
stand_in() {
  local name=$1 container step
  container=$("${BUILDAH[@]}" from --pull-never "$2")
  shift 2
  for step in "$@"; do
    # shellcheck disable=SC2086  # a command line
    "${BUILDAH[@]}" ${step/@/$container} >/dev/null
  done
  "${BUILDAH[@]}" commit -q --rm "$container" "$name" >/dev/null
}

suite_of() {
  grep -oE 'bookworm|trixie' <<<"$1" || die "nothing is known of the Debian that base image $1 is of" "name it in suite_of (hack/release/images/base-images.sh)"
}

# debian_sources SUITE: from where this machine has its own packages, if it is a Debian, else from Debian's servers.
debian_sources() {
  local own=/etc/apt/sources.list.d/debian.sources
  if [ -f "$own" ]; then
    sed -E "s/\\b$(. /etc/os-release && echo "$VERSION_CODENAME")\\b/$1/g" "$own"
  else
    echo "deb http://deb.debian.org/debian $1 main"
    echo "deb http://deb.debian.org/debian $1-updates main"
    echo "deb http://deb.debian.org/debian-security $1-security main"
  fi
}

stand_in_debian() {
  local tar=$ARCHIVES/tmp/debian.tar log=$ARCHIVES/debian.log sources=$ARCHIVES/tmp/debian.sources suite arch
  need mmdebstrap
  suite=$(suite_of "$1")
  debian_sources "$suite" > "$sources"
  arch=$(machine_architecture)
  [[ $1 != *-arm64 ]] || arch=$FOREIGN
  # force-unsafe-io as in the original: a layer that a crash spoils is made anew.
  # With apt's own messages: a quiet mmdebstrap says only that apt has failed. It hands its next free descriptor to
  # /bin/sh by number, and dash knows none above 9: "Bad fd number", where ten are open already.
  retried logged "$log" '^(E: |Err:|/bin/sh: )' standard_streams_only mmdebstrap --verbose --variant=minbase --architectures="$arch" --skip=check/qemu --dpkgopt='force-unsafe-io' \
    --aptopt='Acquire::Retries "3"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --aptopt='Dir::Cache::pkgcache ""' --aptopt='Dir::Cache::srcpkgcache ""' \
    --aptopt='DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; }' "$suite" "$tar" "$sources" ||
    die "mmdebstrap could not make $1 from packages" \
      "see the messages above and $log; do the package sources in $sources answer? then run it again"
  stand_in "$1" scratch "config --arch $arch @" "add @ $tar /" "config --cmd bash @"
  rm "$tar"
}

stand_in_golang() {
  local path=/usr/local/go/bin:/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  local want=${1##*:}
  want=${want%%-*}
  need go
  case $(go env GOVERSION) in
    "go$want" | "go$want".*) ;;
    *) die "the Dockerfile wants Go $want, this machine has $(go env GOVERSION)" "run hack/dev/deps.sh, or set the golang image's tag" ;;
  esac
  stand_in "$1" "$DEBIAN_REPOSITORY:$(suite_of "$1")-slim" "copy @ $(go env GOROOT) /usr/local/go" \
    "config --env PATH=$path --env GOPATH=/go @"
}

headers_digest() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1); }

# Headers of each CPython come in a Maven artifact; an extension needs nothing else to be built.
stand_in_python() {
  local version=${1##*:} dir=$ARCHIVES/python-headers base
  base=$DEBIAN_REPOSITORY:$(suite_of "$1")-slim
  [[ $1 != *"$SUFFIX" ]] || base+=$SUFFIX
  version=${version%%-*}
  if [ ! -d "$dir" ] || [ "$(cat "$dir/digest" 2>/dev/null)" != $HEADERS_DIGEST ]; then
    need mvn
    rm -rf "$dir.new"
    retried mvn -q -B -f "$HERE/python-headers.xml" -Dheaders="$dir.new" dependency:unpack ||
      die "the CPython headers could not be had from Maven Central" "check the network and ~/.m2/settings.xml; see hack/release/images/README.md"
    [ "$(headers_digest "$dir.new")" = $HEADERS_DIGEST ] ||
      die "the CPython headers have the digest $(headers_digest "$dir.new"), expected $HEADERS_DIGEST" \
        "after a change of python-headers.xml write it to hack/release/images/base-images.sh; else look where they came from (~/.m2/settings.xml)"
    echo $HEADERS_DIGEST > "$dir.new/digest"
    rm -rf "$dir"
    mv "$dir.new" "$dir"
  fi
  local headers=$dir/$version/org/bytedeco/cpython/linux-x86_64/include/python$version
  [ -f "$headers/pyconfig.h" ] || die "no headers for CPython $version in $dir" "add the version to hack/release/images/python-headers.xml and remove $dir"
  # Those for other architectures tell apart what an extension does not ask for.
  stand_in "$1" "$base" "copy @ $headers /usr/local/include/python$version"
}
