#!/usr/bin/env bash
# Installs another store's package, so that PeerCache can be measured beside it; prints the interpreter that has it.
#
#   hack/others/install.sh mooncake|original
#
# Into the cache, once for each content of NAME.txt. Each store has an interpreter of its own: the
# original's package has the name of ours.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../lib.sh"

name=${1:-}
[[ $# = 1 && -f $HERE/$name.txt ]] || die "'$*' is no store" "name one: mooncake or original"
python=${PYTHON:-/usr/bin/python3}
venv=$PEERCACHE_CACHE/others-$name-$(cat "$HERE/$name.txt" <("$python" --version) | sha256sum | cut -c1-12)

mkdir -p "$PEERCACHE_CACHE"
exec 9>"$venv.lock"
flock 9  # one run at a time installs
if [[ ! -e $venv/complete ]]; then
  step "installing $(grep -o '^[^ #]*==[^ ]*' "$HERE/$name.txt")"
  rm -rf "$venv"
  "$python" -m venv "$venv" || die "$python cannot make a virtual environment" "apt-get install python3-venv"
  retried "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: --requirement "$HERE/$name.txt" >&2 ||
    die "pip cannot install $HERE/$name.txt" \
      "check the network and the package index (pip config list), and that $python is CPython 3.10 to 3.12 on x86_64"
  touch "$venv/complete"
fi
echo "$venv/bin/python"
