#!/usr/bin/env bash
# Runs the tests of the Python package on the system's Python. Its torch is Debian's, or PyPI's where that is missing.
#
#   dataplane/python/test.sh                       # all; needs a build of the data plane
#   dataplane/python/test.sh -m 'not node'         # what needs no build
#   dataplane/python/test.sh -k scenarios -x       # any arguments of pytest
#
# PEERCACHE_BUILD names the build's folder (default: dataplane/build/release); it holds peercached and
# python/_peercache.*.so. pytest lives in ${PEERCACHE_CACHE:-~/.cache/peercache}, one folder for each
# content of tests/requirements.txt. PEERCACHE_TESTS names a folder of tests with requirements besides.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${PEERCACHE_CACHE:-${HOME:-/root}/.cache/peercache}"
python="${PYTHON:-/usr/bin/python3}"
requirements=("$here/tests/requirements.txt")
[[ -z "${PEERCACHE_TESTS:-}" ]] || requirements+=("$here/tests/$PEERCACHE_TESTS/requirements.txt")

die() {
  printf 'error: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 1
}

# Found, not imported: torch takes seconds.
missing="$("$python" -c 'import sys; from importlib.util import find_spec; print(*(n for n in sys.argv[1:] if not find_spec(n)))' \
  torch numpy psutil)" || die "$python does not run" "set PYTHON to a Python 3"
case "$missing" in
  "") ;;
  torch) requirements+=("$here/tests/torch/requirements.txt") ;;
  *) die "$python lacks $missing" "apt-get install python3-torch python3-numpy python3-psutil (or hack/dev/deps.sh)" ;;
esac
venv="$cache/python-tests-$(cat "${requirements[@]}" <("$python" --version) | sha256sum | cut -c1-12)"
# One run at a time installs. A guest of test-rdma, whose disk is read-only, finds it complete.
if [[ ! -e "$venv/complete" ]]; then
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9
fi
if [[ ! -e "$venv/complete" ]]; then
  printf '==> installing pytest into %s\n' "$venv" >&2
  rm -rf "$venv"
  "$python" -m venv --system-site-packages "$venv" ||
    die "$python cannot make a virtual environment" "apt-get install python3-venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    "${requirements[@]/#/--requirement=}" ||
    die "pip cannot install ${requirements[*]}" "check the network and pip config list"
  touch "$venv/complete"
fi
exec 9>&-
if [[ -z "${PEERCACHE_ENGINE:-}" ]]; then
  PEERCACHE_ENGINE="$("$here/../../e2e/engine/install.sh")"
  export PEERCACHE_ENGINE
fi
export PYTHONDONTWRITEBYTECODE=1
cd "$here/.."
exec "$venv/bin/python" -m pytest "$@"
