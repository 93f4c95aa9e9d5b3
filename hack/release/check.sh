#!/usr/bin/env bash
# Whether a tag is of the version that the tree has everywhere: VERSION, chart, kustomize bases (a test compares these),
# and a heading of the changelog.
#
#   hack/release/check.sh TAG     such as v0.1.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

version=$(cat "$PEERCACHE_ROOT/VERSION")
[ "${1:-}" = "v$version" ] ||
  die "TAG='${1:-}' is not the version of this tree, v$version" "tag the commit whose VERSION it is, or change VERSION, the chart and config/ first"
notes=$("$PEERCACHE_ROOT/hack/release/notes.sh")
[ -n "$notes" ] || die "CHANGELOG.md says nothing of $version" "write its section, [$version]"
note "v$version: CHANGELOG.md has $(wc -l <<<"$notes") lines"
