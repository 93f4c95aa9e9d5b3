#!/usr/bin/env bash
# Prints a folder with the pinned pybind11 headers; downloads them once.
#
#   cmake -DPEERCACHE_PYBIND11_INCLUDE="$(dataplane/python/pybind11.sh)" ...
#
# Debian 12 has 2.10, which knows no CPython above 3.11. Cached in ${PEERCACHE_CACHE:-~/.cache/peercache}.
set -euo pipefail

version=3.0.4
sha256=961720ee652da51d531b7b2451a6bd2bc042b0106e6d9baa48ecb7d58034ce63
cache="${PEERCACHE_CACHE:-$HOME/.cache/peercache}/pybind11-$version"
if [[ ! -f "$cache/pybind11/include/pybind11/pybind11.h" ]]; then
  mkdir -p "${cache%/*}"
  work="$(mktemp -d "$cache.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  echo "pybind11.sh: downloading pybind11 $version" >&2
  echo "pybind11==$version --hash=sha256:$sha256" >"$work/requirements.txt"
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --require-hashes --dest "$work" --requirement "$work/requirements.txt" >&2; then
    echo "pybind11.sh: cannot download pybind11 $version; check the network and the package index" \
      "(pip config list), or set PEERCACHE_PYBIND11_INCLUDE to a folder that has it" >&2
    exit 1
  fi
  python3 -m zipfile --extract "$work"/pybind11-*.whl "$work/unpacked"
  rm -rf "$cache"
  mv "$work/unpacked" "$cache"
fi
echo "$cache/pybind11/include"
