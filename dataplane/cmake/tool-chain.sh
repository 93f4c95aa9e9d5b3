#!/bin/sh
# Installs what the Dockerfile compiles C++ with, and has CMake read /etc/target.cmake:
#
#   tool-chain.sh [ARCHITECTURE]      amd64 or arm64, this machine's without one
#
# For another architecture: its compiler and libraries, its binutils under their plain names, and what CMake reads of it.
set -eu
own=$(dpkg --print-architecture) of='' compiler=g++
touch /etc/target.cmake
case ${1:-$own} in
  "$own") ;;
  arm64)
    of=:arm64 compiler=g++-aarch64-linux-gnu
    dpkg --add-architecture arm64
    echo 'include(/src/dataplane/cmake/arm64.cmake)' >/etc/target.cmake
    ;;
  *) echo "error: nothing is known of compiling for $1 on $own"; exit 1 ;;
esac
libraries=''
for name in libibverbs librdmacm libnuma liburing libspdlog libfmt libxxhash prometheus-cpp libmicrohttpd libssl; do
  libraries="$libraries $name-dev$of"
done
apt-get update
# shellcheck disable=SC2086  # a list
apt-get install -y --no-install-recommends \
  $compiler cmake ninja-build ccache pkg-config $libraries libasio-dev libcli11-dev nlohmann-json3-dev \
  ca-certificates python3-pip
rm -rf /var/lib/apt/lists/*
[ -z "$of" ] || for tool in /usr/bin/aarch64-linux-gnu-*; do
  ln -s "$tool" "/usr/local/bin/${tool##*-gnu-}"
done
