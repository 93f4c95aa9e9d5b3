#!/usr/bin/env bash
# Installs what the test engine runs: SGLang's real source of the storage layer, and msgspec.
#
#   e2e/engine/install.sh                 # into the cache; prints the folder
#   e2e/engine/install.sh --target DIR    # into DIR, e.g. /opt/engine in the image
#
# The folder has source/sglang (SGLang, Python only) and site (msgspec). It needs Debian's packages
# python3-torch, python3-numpy and python3-psutil at run time. Downloads once for each content of
# requirements.txt; the cache is ${PEERCACHE_CACHE:-~/.cache/peercache}.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${PEERCACHE_CACHE:-${HOME:-/root}/.cache/peercache}"
target=""

die() {
  printf 'error: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 1
}

while (($#)); do
  case "$1" in
    --target)
      (($# > 1)) || die "--target needs a folder" "write --target DIR"
      target="$2"
      shift 2
      ;;
    -h | --help)
      sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown argument $1" "run $0 --help" ;;
  esac
done

# The system's, which runs the engine: another one may come first on the PATH.
python=/usr/bin/python3
[[ -x "$python" ]] || python=python3
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
content="$(cat "$here/requirements.txt" "${BASH_SOURCE[0]}" - <<<"$version" | sha256sum | cut -c1-12)"
made="$cache/engine-$content"

install_to() { # DIR: downloads the pinned wheels and unpacks what is needed of them
  local dir="$1" wheels="$1/wheels"
  mkdir -p "$wheels" "$dir/source" "$dir/site"
  printf '==> downloading SGLang and msgspec (40 MB)\n' >&2
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --python-version "$version" --platform manylinux_2_34_x86_64 --platform manylinux2014_x86_64 \
    --require-hashes --dest "$wheels" --requirement "$here/requirements.txt" >&2 ||
    die "pip cannot download the wheels of $here/requirements.txt" \
      "check the network and the package index (pip config list); pip comes with python3-pip"
  "$python" - "$wheels" "$dir" >&2 <<'PYTHON'
import pathlib, sys, zipfile

wheels, target = map(pathlib.Path, sys.argv[1:])
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        if wheel.name.startswith("sglang-"):
            # The stand-in of e2e/engine/python replaces everything outside sglang/srt.
            keep = [n for n in archive.namelist() if n.startswith("sglang/srt/") and n.endswith(".py")]
            archive.extractall(target / "source", keep)
        else:
            archive.extractall(target / "site")
PYTHON
  rm -rf "$wheels"
}

if [[ ! -d "$made/source/sglang/srt" ]]; then
  mkdir -p "$cache"
  work="$(mktemp -d "$made.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  install_to "$work"
  chmod 755 "$work"
  rm -rf "$made"
  mv "$work" "$made"
fi
if [[ -z "$target" ]]; then
  printf '%s\n' "$made"
else
  mkdir -p "$target"
  cp -a "$made/." "$target/"
  printf '%s\n' "$target"
fi
