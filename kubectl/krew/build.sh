#!/usr/bin/env bash
# Builds kubectl-peercache for every platform into dist/krew: one archive each, and peercache.yaml, the manifest with
# their checksums.
#
#   kubectl/krew/build.sh [OS/ARCH...]     all platforms when none is named
#
# KREW_URL is where the archives will be found: a release's folder. KREW_OUT is where they are written instead of
# dist/krew. Try the result without publishing it:
#   kubectl krew install --manifest=dist/krew/peercache.yaml --archive=dist/krew/kubectl-peercache-linux-amd64.tar.gz
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

VERSION=$(cat VERSION)
URL=${KREW_URL:-https://github.com/peercache/peercache/releases/download/v$VERSION}
OUT=${KREW_OUT:-dist/krew}
PLATFORMS="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"
# shellcheck disable=SC2086  # a list
[ $# -gt 0 ] || set -- $PLATFORMS

mkdir -p "$OUT"
platforms=
for platform in "$@"; do
  os=${platform%/*} arch=${platform#*/}
  echo "==> building kubectl-peercache for $platform"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -ldflags "-s -w -X main.version=$VERSION" \
    -o "$folder/kubectl-peercache" ./kubectl/cmd/kubectl-peercache
  cp LICENSE "$folder"
  # The same source gives the same archive, so that a checksum can be checked by building again.
  archive=kubectl-peercache-$os-$arch.tar.gz
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - kubectl-peercache LICENSE |
    gzip -9n >"$OUT/$archive"
  rm -rf "$folder"
  trap - EXIT
  sum=$(sha256sum "$OUT/$archive" | cut -d' ' -f1)
  platforms+="    - selector: {matchLabels: {os: $os, arch: $arch}}
      uri: $URL/$archive
      sha256: $sum
      bin: kubectl-peercache
"
done
manifest=$(<kubectl/krew/peercache.yaml)
manifest=${manifest#*$'\n'} # without the template's own comment
manifest=${manifest//@@VERSION@@/$VERSION}
printf '%s\n' "${manifest//@@PLATFORMS@@/${platforms%$'\n'}}" >"$OUT/peercache.yaml"
echo "==> $OUT/peercache.yaml names $# archives"
