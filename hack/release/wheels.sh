#!/usr/bin/env bash
# dist/wheels: wheels and source distribution of the Python package peercache-k8s.
#
#   hack/release/wheels.sh           from the client's image, of each architecture that is built; twine checks them
#   hack/release/wheels.sh upload    the same files to PyPI, as the workflow that runs it or with twine's own settings
#
# Wheels have what the client's image has: a client of a node on the machine. A node inside of SGLang is built from the
# source distribution.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$PEERCACHE_ROOT/hack/release/images/targets.sh"
export PYTHONDONTWRITEBYTECODE=1

OUT=$PEERCACHE_ROOT/dist/wheels
REQUIREMENTS=$PEERCACHE_ROOT/hack/release/requirements.txt
VENV=$PEERCACHE_CACHE/wheels/$({ cat "$REQUIREMENTS"; /usr/bin/python3 --version; } | sha256sum | cut -c1-16)

virtual_environment "scikit-build-core and twine" "$VENV" "$REQUIREMENTS"

if [ "${1:-}" = upload ]; then
  exec "$VENV/bin/twine" upload --non-interactive "$OUT"/*
fi

archives=$(image_archives client)
mapfile -t archives <<<"$archives"
rm -rf "$OUT"
/usr/bin/python3 "$PEERCACHE_ROOT/hack/release/wheels" "$OUT" "${archives[@]}"
(cd "$PEERCACHE_ROOT/dataplane" && "$VENV/bin/python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' "$OUT")
"$VENV/bin/twine" check --strict "$OUT"/*
