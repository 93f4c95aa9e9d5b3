#!/usr/bin/env bash
# Installs the agent of NIXL, for the tests of PeerCache's plugin; prints the folder of its virtual environment.
#
#   hack/lab/nixl/install.sh
#
# Into the cache (300 MB), once for each content of packages.txt.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"

python=${PYTHON:-/usr/bin/python3}
venv=$PEERCACHE_CACHE/nixl/$(cat "$HERE/packages.txt" <("$python" --version) | sha256sum | cut -c1-12)

virtual_environment "NIXL's agent" "$venv" "$HERE/packages.txt" --no-deps
echo "$venv"
