#!/usr/bin/env bash
# Installs another store's package, so that PeerCache can be measured beside it; prints the interpreter that has it.
#
#   hack/lab/others/install.sh mooncake|original
#
# Into the cache, once for each content of NAME.txt. Each store has an interpreter of its own: the
# original's package has the name of ours.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"

name=${1:-}
[[ $# = 1 && -f $HERE/$name.txt ]] || die "'$*' is no store" "name one: mooncake or original"
python=${PYTHON:-/usr/bin/python3}
venv=$PEERCACHE_CACHE/others/$name-$(cat "$HERE/$name.txt" <("$python" --version) | sha256sum | cut -c1-12)

virtual_environment "$(grep -o '^[^ #]*==[^ ]*' "$HERE/$name.txt")" "$venv" "$HERE/$name.txt" --no-deps
echo "$venv/bin/python"
