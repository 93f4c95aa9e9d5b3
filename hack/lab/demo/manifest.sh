#!/usr/bin/env bash
# Prints peercache.yaml of the README for the demo's machines, which have no GPU and little memory.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../lib.sh"
README=${1:-$PEERCACHE_ROOT/README.md}
manifest=$(awk '/^## Quick start on your cluster$/ {here = 1} here && /^```$/ {exit} block {print} here && /^```yaml$/ {block = 1}' "$README")
for part in 'pool: 64Gi' 'selector: {nvidia.com/gpu.present: "true"}'; do
  grep -qF "$part" <<<"$manifest" || die "the manifest of $README has no '$part'" "make ${BASH_SOURCE[0]} agree with it"
done
sed 's/pool: 64Gi/pool: 256Mi/; /selector: {nvidia.com\/gpu.present: "true"}/d' <<<"$manifest"
