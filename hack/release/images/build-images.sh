#!/usr/bin/env bash
# Builds the images from the Dockerfile and writes each as a docker archive, ready for
# `hack/lab/cluster/cluster load-image`. An image whose inputs did not change is left as it is.
#
#   hack/release/images/build-images.sh [--prune] [operator|dataplane|client|engine|embedded ...]    default: all
#   ARCH=arm64 hack/release/images/build-images.sh operator dataplane client     on amd64: compiled by cross compilers
#
# Uses Docker where an engine answers, else buildah. Where the base images can be had from no registry,
# buildah builds on stand-ins made from packages; see README.md. PEERCACHE_BUILDER=docker|buildah forces one.
# Archives and caches: ${PEERCACHE_CACHE:-~/.cache/peercache}/images.  --prune drops old layers first.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/targets.sh"
. "$HERE/emulator.sh"

PRUNE=
if [ "${1:-}" = --prune ]; then PRUNE=yes; shift; fi
own=$(machine_architecture)
FOREIGN=${ARCH:-}  # the architecture, where it is not this machine's
[ "$FOREIGN" != "$own" ] || FOREIGN=
if [ -n "$FOREIGN" ]; then
  [ "$own-$FOREIGN" = amd64-arm64 ] ||
    die "ARCH='$FOREIGN' cannot be built on $own" "name amd64 or arm64; amd64 is built on amd64 alone"
  [ $# -gt 0 ] || set -- operator dataplane client
  case " $* " in *' engine '* | *' embedded '*) die "engine and embedded are for tests on this machine" "leave ARCH=$FOREIGN out" ;; esac
fi
[ $# -gt 0 ] || set -- "${TARGETS[@]}"
for target in "$@"; do target_sources "$target" >/dev/null; done

choose_builder() {
  if [ -n "${PEERCACHE_BUILDER:-}" ]; then echo "$PEERCACHE_BUILDER"
  elif timeout 20 docker info >/dev/null 2>&1; then echo docker
  else echo buildah; fi
}

mkdir -p "$ARCHIVES/tmp"
exec 7>"$ARCHIVES/lock"
flock -n 7 || { note "another build of images is running: waiting for it"; flock 7; }

builder=''
for target in "$@"; do
  archive=$(image_archive "$target" "$FOREIGN")
  hash=$(inputs_hash "$target")
  # All architectures of a pushed image come from one tree.
  while read -r other; do
    if [ "$(cat "$other.inputs" 2>/dev/null)" != "$hash" ]; then
      note "removed, as it is of another tree: $other"
      rm -f "$other" "$other.inputs"
    fi
  done < <(foreign_archives "$target")
  if [ -f "$archive" ] && [ "$(cat "$archive.inputs" 2>/dev/null)" = "$hash" ]; then
    note "$(image_name "$target") is up to date${FOREIGN:+ for $FOREIGN}"
    continue
  fi
  if [ -z "$builder" ]; then
    builder=$(choose_builder)
    [ -f "$HERE/$builder.sh" ] || die "PEERCACHE_BUILDER='$builder' is not known" "use docker or buildah"
    # shellcheck disable=SC1090  # one of two
    . "$HERE/$builder.sh"
    trap builder_cleanup EXIT
    [ -z "$FOREIGN" ] || emulate_arm64 "$(command -v qemu-aarch64-static)"
    builder_prepare "$PRUNE"
  fi
  start=$SECONDS
  step "building $(image_name "$target")${FOREIGN:+ for $FOREIGN} with $builder"
  build_image "$target" ||
    die "building image '$target' failed" "see the message above; the failing step is in the Dockerfile"
  rm -f "$archive.new"
  save_image "$target" "$archive.new"
  mv "$archive.new" "$archive"
  echo "$hash" > "$archive.inputs"
  note "$archive: $(du -h "$archive" | cut -f1), $((SECONDS - start)) s"
done
