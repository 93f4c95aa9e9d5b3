#!/usr/bin/env bash
# Pushes a release to a registry: images, chart and OLM bundle. Prints each with its digest, and writes them to
# dist/release/pushed.tsv.
#
#   hack/release/push.sh REGISTRY [TAG]     such as registry.example.com/peercache; TAG is VERSION when none is named
#
# The images must be built. PUSH_KIT is a folder that has them, the programs and the bundle (kit.sh): nothing is built then.
# Chart and bundle name them by the digests that the registry has, so that what is installed is
# what was pushed, also by way of a mirror. REGISTRY_INSECURE=true speaks HTTP. RELEASE_OUT is written instead of dist/release.
# Credentials are those of `docker login` or `crane auth login` (~/.docker/config.json).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[ -z "${PUSH_KIT:-}" ] || PEERCACHE_CACHE=$PUSH_KIT
. "$PEERCACHE_ROOT/hack/release/images/targets.sh"

to=${1:-} tag=${2:-$VERSION}
[[ $to =~ ^[a-z0-9][a-zA-Z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+$ ]] ||
  die "REGISTRY='$to' is no place in a registry" "name host and path without a scheme, such as REGISTRY=registry.example.com/peercache"
# The chart has the same version as the images, and Helm takes nothing else.
[[ $tag =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
  die "TAG='$tag' is no version" "write MAJOR.MINOR.PATCH, such as $VERSION or $VERSION-rc.1"

OUT=${RELEASE_OUT:-$PEERCACHE_ROOT/dist/release}
if [ -n "${PUSH_KIT:-}" ]; then BIN=$PUSH_KIT/bin; else BIN=$("$PEERCACHE_ROOT/hack/lab/cluster/build.sh" --push); fi
CRANE=("$BIN/crane") HELM=("$BIN/helm") PLAIN=()
if [ "${REGISTRY_INSECURE:-}" = true ]; then CRANE+=(--insecure) PLAIN=(--plain-http); fi
IMAGES=(operator dataplane client)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUT"
: >"$work/pushed.tsv"
declare -A digest

pushed() {  # pushed NAME REFERENCE
  printf '%s\t%s\n' "$1" "$2" >>"$work/pushed.tsv"
  note "$2"
}

architecture() {  # architecture ARCHIVE
  local config
  config=$(tar -xOf "$1" manifest.json | jq -r '.[0].Config')
  tar -xOf "$1" "$config" | jq -r .architecture
}

push_image() {
  local image=$1 name=$to/$1 archive list manifests=() made
  # Of other sources it would be an image that no one can build from this tree.
  list=$(image_archives "$image")
  mapfile -t list <<<"$list"
  if [ ${#list[@]} = 1 ]; then
    made=$("${CRANE[@]}" push "${list[0]}" "$name:$tag")
  else
    for archive in "${list[@]}"; do
      manifests+=(--manifest "$("${CRANE[@]}" push "$archive" "$name:$tag-$(architecture "$archive")")")
    done
    made=$("${CRANE[@]}" index append "${manifests[@]}" --tag "$name:$tag")
  fi
  digest[$image]=${made##*@}
  pushed "$image" "$name@${digest[$image]}"
}

# by_digest FILE...: what names the images of this tree names those of the registry.
by_digest() {
  local image
  for image in "${IMAGES[@]}"; do
    sed -i "s#$REGISTRY/$image:$VERSION#$to/$image@${digest[$image]}#g" "$@"
  done
}

push_chart() {
  local image said
  cp -r "$PEERCACHE_ROOT/charts/peercache" "$work/chart"
  for image in "${IMAGES[@]}"; do
    # The tag is the next one below the repository.
    sed -i "\\#repository: $REGISTRY/$image\$#,/tag: / {
      s#$REGISTRY/$image#$to/$image#
      s#tag: \"\"#tag: ${digest[$image]}#
    }" "$work/chart/values.yaml"
  done
  by_digest "$work/chart/Chart.yaml"
  "${HELM[@]}" package "$work/chart" --version "$tag" --app-version "$tag" --destination "$OUT" >/dev/null
  said=$("${HELM[@]}" push "${PLAIN[@]}" "$OUT/peercache-$tag.tgz" "oci://$to/charts" 2>&1) ||
    die "the chart was not pushed: $said" "does the registry take OCI artifacts?"
  pushed chart "$to/charts/peercache@$(sed -n 's/^Digest: //p' <<<"$said")"
}

push_bundle() {
  local bundle=$work/bundle labels made
  if [ -n "${PUSH_KIT:-}" ]; then
    cp -r "$PUSH_KIT/bundle" "$bundle"
  else
    (cd "$PEERCACHE_ROOT/hack/release/olm" && CGO_ENABLED=0 go run . ../../.. "$bundle")
  fi
  by_digest "$bundle"/manifests/*
  # The image that bundle.Dockerfile describes: files without a system, and labels.
  mapfile -t labels < <(sed -n 's/^LABEL \(.*\)/--label=\1/p' "$bundle/bundle.Dockerfile")
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$bundle" -cf "$work/bundle.tar" manifests metadata
  "${CRANE[@]}" append --new_layer "$work/bundle.tar" --new_tag "$to/bundle:$tag" >/dev/null
  made=$("${CRANE[@]}" mutate --set-platform linux/amd64 "${labels[@]}" --tag "$to/bundle:$tag" "$to/bundle:$tag")
  pushed bundle "$to/bundle@${made##*@}"
}

step "pushing $VERSION to $to as $tag"
for image in "${IMAGES[@]}"; do push_image "$image"; done
push_chart
push_bundle
mv "$work/pushed.tsv" "$OUT/pushed.tsv"
step "install it: helm upgrade --install peercache oci://$to/charts/peercache --version $tag --namespace peercache-system --create-namespace"
