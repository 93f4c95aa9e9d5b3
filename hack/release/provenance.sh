#!/usr/bin/env bash
# From which commit, by which builder and when each image was made: dist/release/IMAGE.provenance.json, an in-toto
# statement with a predicate of SLSA provenance v1. sign.sh attests it, of what push.sh has pushed.
#
#   hack/release/provenance.sh [IMAGE...]     operator, dataplane and client when none is named; they must be built
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$PEERCACHE_ROOT/hack/release/images/targets.sh"

OUT=$PEERCACHE_ROOT/dist/release
SOURCE=https://github.com/peercache/peercache

need git jq sha256sum
cd "$PEERCACHE_ROOT"
[ $# -gt 0 ] || set -- operator dataplane client
changed=$(git status --porcelain)
[ -z "$changed" ] || die "the work tree is not what any commit says: $(head -1 <<<"$changed")" "commit first, then make images"
commit=$(git rev-parse HEAD)
mkdir -p "$OUT"
for image in "$@"; do
  # An archive made of other sources is not this commit's.
  archives=$(image_archives "$image")
  subjects=() built=''
  while read -r archive; do
    # What a registry's manifest names as the image's configuration, and docker as its ID.
    config=$(tar -xOf "$archive" manifest.json | jq -r '.[0].Config')
    id=$(tar -xOf "$archive" "$config" | sha256sum | cut -d' ' -f1)
    subjects+=("$(jq -n --arg name "$(image_name "$image")" --arg id "$id" --arg archive "$(basename "$archive")" \
      --arg sum "$(sha256sum "$archive" | cut -d' ' -f1)" \
      '{name: $archive, digest: {sha256: $sum}}, {name: $name, digest: {sha256: $id}}')")
    made=$(date -u -r "$archive" +%Y-%m-%dT%H:%M:%SZ)
    [[ $made < $built ]] || built=$made
  done <<<"$archives"
  file=$OUT/$image.provenance.json
  jq -n --argjson subjects "$(jq -s . <<<"${subjects[*]}")" --arg image "$image" --arg version "$VERSION" \
    --arg source "git+$SOURCE" --arg commit "$commit" --arg built "$built" '{
      _type: "https://in-toto.io/Statement/v1",
      subject: $subjects,
      predicateType: "https://slsa.dev/provenance/v1",
      predicate: {
        buildDefinition: {
          buildType: "https://github.com/peercache/peercache/blob/main/Dockerfile",
          externalParameters: {target: $image, version: $version},
          resolvedDependencies: [{uri: $source, digest: {gitCommit: $commit}}]},
        runDetails: {
          builder: {id: "https://github.com/peercache/peercache/blob/main/hack/release/images/build-images.sh"},
          metadata: {finishedOn: $built}}}}' >"$file"
  note "${file#"$PEERCACHE_ROOT"/}: commit ${commit:0:12}, $(wc -l <<<"$archives") architectures"
done
