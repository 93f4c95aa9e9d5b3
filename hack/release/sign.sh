#!/usr/bin/env bash
# Signs what push.sh has pushed, and attests of each image what is in it (SPDX) and which commit it is of (SLSA provenance).
#
#   hack/release/sign.sh
#
# Needs cosign on PATH. In a workflow of GitHub it signs as that workflow. COSIGN_KEY signs with a key instead, and then
# leaves nothing in a public log.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

OUT=${RELEASE_OUT:-$PEERCACHE_ROOT/dist/release}
need cosign jq
[ -s "$OUT/pushed.tsv" ] || die "nothing has been pushed: $OUT/pushed.tsv is missing" "make push REGISTRY=..."

FLAGS=(--yes)
[ -z "${COSIGN_KEY:-}" ] || FLAGS+=(--key "$COSIGN_KEY" --tlog-upload=false --use-signing-config=false)
[ "${REGISTRY_INSECURE:-}" != true ] || FLAGS+=(--allow-insecure-registry --allow-http-registry)

predicate=$(mktemp)
trap 'rm -f "$predicate"' EXIT
while IFS=$'\t' read -r name reference; do
  cosign sign "${FLAGS[@]}" "$reference"
  if [ -f "$OUT/$name.spdx.json" ]; then
    for sbom in "$OUT/$name.spdx.json" "$OUT/$name"-*.spdx.json; do  # of each architecture
      [ ! -f "$sbom" ] || cosign attest "${FLAGS[@]}" --type spdxjson --predicate "$sbom" "$reference"
    done
    # cosign makes the statement anew, about the digest that the registry has.
    jq .predicate "$OUT/$name.provenance.json" >"$predicate"
    cosign attest "${FLAGS[@]}" --type slsaprovenance1 --predicate "$predicate" "$reference"
  fi
  note "signed $reference"
done <"$OUT/pushed.tsv"
