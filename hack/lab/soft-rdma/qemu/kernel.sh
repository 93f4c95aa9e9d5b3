#!/usr/bin/env bash
# Makes what QEMU boots: a stock Debian kernel, and an initial ramdisk with the few modules that the guest needs.
#
#   hack/lab/soft-rdma/qemu/kernel.sh              prints the folder, which holds vmlinuz and initrd.img
#   hack/lab/soft-rdma/qemu/kernel.sh backports    the newest of Debian's backports, for what the stable one has not
#
# Cached, one folder for each version of the kernel's package and content of this script and of init.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../../lib.sh"

# What mounts the host's files.
FIRST='virtio_pci 9pnet_virtio 9p overlay'
# RDMA over Ethernet, its wires, and NICs. rxe finds its checksum only when that is there before the first device is.
THEN='crc32_generic crc32c_generic virtio_net e1000e veth sch_netem ib_uverbs rdma_ucm rdma_rxe'

# What a Kubernetes node needs besides: a disk, pods' networks, the devices that its plug-in hands out with each port.
THEN+=' virtio_blk ext4 af_packet macvlan ib_umad'

need apt-cache apt-get dpkg depmod modprobe cpio busybox xz strip
mkdir -p "$PEERCACHE_CACHE/soft-rdma"
apt=(-o APT::Sandbox::User=root -o Acquire::Retries=3)
if [ "${1:-}" = backports ]; then
  # Package lists of their own, so that this machine does not come to install from there.
  lists=$PEERCACHE_CACHE/soft-rdma/backports
  mkdir -p "$lists/partial"
  echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie-backports main' >"$lists.list"
  apt+=(-o "Dir::Etc::sourcelist=$lists.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$lists"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  retried apt-get "${apt[@]}" update -qq >&2 || note "the list of Debian's backports is that of an earlier run"
fi
depends() { LC_ALL=C apt-cache "${apt[@]}" depends "$1" 2>/dev/null | awk '$1 == "Depends:" {print $2}'; }
package='' version=''
for package in linux-image-6.12-amd64 linux-image-amd64; do
  version=$(depends "$package" | grep -m 1 '^linux-image-' || true)
  [ -z "$version" ] || break
done
[ -n "$version" ] || die "the package sources of this machine have no linux-image-amd64" \
  "apt-get update; this lane needs a Debian machine"
identity=$({ LC_ALL=C apt-cache "${apt[@]}" policy "$version" | grep Candidate; cat "$HERE/init" "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-16)
made=$PEERCACHE_CACHE/soft-rdma/qemu-$version-$identity
if [ -d "$made" ]; then echo "$made"; exit; fi

work=$(mktemp -d "$made.XXXXXX")
trap 'rm -rf "$work"' EXIT
release=${version#linux-image-}
# Newer kernels come in parts.
mapfile -t parts < <(echo "$version"; depends "$version" | grep -xE "linux-(base|binary|modules)-${release//+/\\+}" || true)
note "downloading $version (100 MB)"
(cd "$work" && retried apt-get "${apt[@]}" download -qq "${parts[@]}") ||
  die "$version could not be downloaded" "apt-get update; are the package sources in /etc/apt reachable?"
for part in "${parts[@]}"; do dpkg -x "$work/$part"_*.deb "$work/root"; done
[ -e "$work/root/lib" ] || ln -s usr/lib "$work/root/lib"
depmod -b "$work/root" "$release"

tree=$work/tree
mkdir -p "$tree"/{bin,dev,proc,sys,newroot,lower,upper,modules}
cp "$(command -v busybox)" "$tree/bin/busybox"
for applet in sh mount mkdir insmod switch_root cat echo; do ln -s busybox "$tree/bin/$applet"; done
cp "$HERE/init" "$tree/init"
chmod +x "$tree/init"

# stage LIST MODULE...: the modules and what they depend on, in the order of loading; built-in ones need none.
stage() {
  local list=$1 module file name
  shift
  for module in "$@"; do
    while read -r file; do
      name=$(basename "${file%.xz}")
      if [ -e "$tree/modules/$name" ]; then continue; fi
      case $file in *.xz) xz -dc "$file" >"$tree/modules/$name" ;; *) cp "$file" "$tree/modules/$name" ;; esac
      strip --strip-debug "$tree/modules/$name"
      echo "$name" >>"$list"
    done < <(modprobe -S "$release" -d "$work/root" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" {print $2}')
  done
}
# shellcheck disable=SC2086  # lists
stage "$tree/modules/first" $FIRST
# shellcheck disable=SC2086
stage "$tree/modules/then" $THEN
for module in rdma_rxe 9p overlay; do
  [ -e "$tree/modules/$module.ko" ] || die "$version has no module $module" "this lane needs a Debian kernel that has it"
done

mkdir "$work/made"
cp "$(find "$work/root/boot" "$work/root/lib/modules" -name 'vmlinuz*' 2>/dev/null | head -1)" "$work/made/vmlinuz"
# Not compressed: that would cost an emulated processor seconds.
(cd "$tree" && find . | cpio -o -H newc --quiet) >"$work/made/initrd.img"
mv "$work/made" "$made"
echo "$made"
