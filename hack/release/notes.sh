#!/usr/bin/env bash
# What CHANGELOG.md says of the version in VERSION, without its heading.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
awk -v version="$(cat "$PEERCACHE_ROOT/VERSION")" '
  /^## / { here = index($0, "## [" version "]") == 1; next }
  /^\[.*\]: / { here = 0 }
  here && (NF || text) { text = 1; print }
' "$PEERCACHE_ROOT/CHANGELOG.md"
