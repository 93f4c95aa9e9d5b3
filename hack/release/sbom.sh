#!/usr/bin/env bash
# What is in each image, for who has to know: dist/release/IMAGE.spdx.json (SPDX 2.3), of the packages of Debian, the
# modules of Go and the packages of Python that syft finds in the image itself.
#
#   hack/release/sbom.sh [IMAGE...]     operator, dataplane and client when none is named; they must be built
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$PEERCACHE_ROOT/hack/images/targets.sh"

SYFT_VERSION=v1.42.0
SYFT=$PEERCACHE_CACHE/tools/syft-$SYFT_VERSION/syft
OUT=$PEERCACHE_ROOT/dist/release

need go jq
[ $# -gt 0 ] || set -- operator dataplane client
for image in "$@"; do
  target_sources "$image" >/dev/null
  [ -f "$(image_archive "$image")" ] || die "image $image has not been built" "make images IMAGES=$image"
done
if [ ! -x "$SYFT" ]; then
  step "building syft $SYFT_VERSION (once, several minutes)"
  mkdir -p "$(dirname "$SYFT")"
  GOBIN=$(dirname "$SYFT") CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath' \
    go install "github.com/anchore/syft/cmd/syft@$SYFT_VERSION" ||
    die "syft could not be built" "is the proxy of Go modules reachable? see go env GOPROXY"
fi
mkdir -p "$OUT"
for image in "$@"; do
  step "listing what is in $(image_name "$image")"
  file=$OUT/$image.spdx.json
  SYFT_CHECK_FOR_APP_UPDATE=false "$SYFT" scan -q "docker-archive:$(image_archive "$image")" \
    --source-name "$(image_name "$image")" --source-version "$VERSION" -o "spdx-json=$file.new"
  packages=$(jq '.packages | length' "$file.new")
  # The image itself is one.
  [ "$packages" -gt 1 ] || die "nothing was found in image $image" "$SYFT scan docker-archive:$(image_archive "$image")"
  mv "$file.new" "$file"
  note "${file#"$PEERCACHE_ROOT"/}: $packages packages"
done
