#!/usr/bin/env bash
# Builds the guest's kernel (see config) from the distribution's kernel source, once: a few minutes of two cores.
#
#   hack/lab/soft-rdma/kernel/build.sh           build it when absent
#   hack/lab/soft-rdma/kernel/build.sh --path    the same, then print its path
#
# The source is the version of Debian's package that ./source names by version and digest, so that every machine tests
# on one kernel. It comes from the archive, or from snapshot.debian.org once the archive has only newer ones.
# SOFT_RDMA_KERNEL_SOURCE chooses another on purpose:
#
#   newest                      the newest version of the package; build.sh says what to write to ./source when it is to stay
#   FILE                        a linux-6.12.*.tar.xz of kernel.org, where there is no such package
#
# What is built lies in the cache, one file for each content of this folder and of the source.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../../lib.sh"

read -r PACKAGE VERSION DIGEST SHA1 < <(grep -v '^#' "$HERE/source")
SOURCE=${SOFT_RDMA_KERNEL_SOURCE:-}
case ${1:-} in
  '' | --path) ;;
  *) die "unknown argument '$1'" "hack/lab/soft-rdma/kernel/build.sh [--path]" ;;
esac
[ "$(uname -m)" = x86_64 ] || die "user-mode Linux runs on x86_64, and this machine is $(uname -m)" \
  "use a machine that is"

CACHE=$PEERCACHE_CACHE/soft-rdma
mkdir -p "$CACHE"

# The value of a field of what the package sources say of $PACKAGE=$VERSION.
package_field() { LC_ALL=C apt-cache show "$PACKAGE=$VERSION" 2>/dev/null | awk -v "field=$1:" '$1 == field {print $2; exit}'; }

need sha256sum curl
case $SOURCE in
  '') ;;
  newest)
    need apt-cache
    VERSION=$(LC_ALL=C apt-cache policy "$PACKAGE" | awk '$1 == "Candidate:" && $2 != "(none)" {print $2}')
    [ -n "$VERSION" ] || die "the package sources of this machine have no $PACKAGE" "apt-get update"
    DIGEST=$(package_field SHA256)
    SHA1=
    ;;
  *)
    [ -r "$SOURCE" ] || die "SOFT_RDMA_KERNEL_SOURCE=$SOURCE cannot be read" "name a linux-6.12.*.tar.xz from kernel.org, or 'newest'"
    DIGEST=$(sha256sum <"$SOURCE" | cut -d ' ' -f 1)
    ;;
esac

from_archive() {  # from_archive INTO
  [ -n "$(package_field Filename)" ] || return
  (cd "$1" && retried apt-get download -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root "$PACKAGE=$VERSION")
}

# The snapshot keeps every file that Debian's archive ever had, by its SHA-1, which is a name here: DIGEST says what to trust.
from_snapshot() {  # from_snapshot FILE
  [ -n "$SHA1" ] || return
  note "the archive does not give it: looking into snapshot.debian.org"
  retried curl -fsSL --connect-timeout 20 -o "$1" "https://snapshot.debian.org/file/$SHA1"
}

# download INTO: the package, when its content is what DIGEST says.
download() {
  note "downloading $PACKAGE $VERSION (150 MB)"
  [ -n "$(package_field Filename)" ] || retried apt-get update -qq -o Acquire::Retries=3 || true
  from_archive "$1" || from_snapshot "$1/${PACKAGE}_${VERSION}_all.deb" ||
    die "$PACKAGE $VERSION could not be downloaded, neither from the archive nor from snapshot.debian.org" \
      "apt-get update; or SOFT_RDMA_KERNEL_SOURCE=newest make test-rdma, then write that version to hack/lab/soft-rdma/kernel/source; on Ubuntu SOFT_RDMA_KERNEL_SOURCE=linux-6.12.*.tar.xz of kernel.org"
  sha256sum --quiet -c <<<"$DIGEST  $(echo "$1/$PACKAGE"_*.deb)" >&2 ||
    die "$PACKAGE $VERSION is not the package whose digest hack/lab/soft-rdma/kernel/source has" \
      "look where it came from (apt-cache policy $PACKAGE); do not build it"
}

# Of its 1.4 GB, a third is left out: code of drivers and architectures of which only the Kconfig files are read.
unpack() {  # unpack TARBALL INTO
  local dir skip=()
  for dir in Documentation samples sound rust tools/testing tools/perf drivers/{accel,clk,gpu,iio,media,mtd,scsi} \
      drivers/{soc,staging,usb,video} drivers/infiniband/{hw,ulp} drivers/net/{ethernet,wireless,wan,can,dsa} \
      arch/{arm,arm64,loongarch,m68k,mips,parisc,powerpc,riscv,s390,sh,sparc,xtensa,alpha,arc,csky,hexagon,microblaze}; do
    skip+=("--exclude=*/$dir/*."{c,h,S,rs,rst,json,dts,dtsi,yaml})
  done
  mkdir -p "$2"
  tar -xJf "$1" -C "$2" --strip-components=1 "${skip[@]}"
}

build() {  # build WORK OUTPUT
  local work=$1 tree=$1/linux tarball=$SOURCE patch missing
  if [ -z "$SOURCE" ] || [ "$SOURCE" = newest ]; then
    download "$work"
    dpkg -x "$work/$PACKAGE"_*.deb "$work/package"
    rm "$work/$PACKAGE"_*.deb
    tarball=$work/package/usr/src/$PACKAGE.tar.xz
  fi
  note "unpacking $(basename "$tarball")"
  unpack "$tarball" "$tree"
  rm -rf "$work/package"
  for patch in "$HERE"/patches/*.patch; do
    patch -d "$tree" -p1 -s --no-backup-if-mismatch <"$patch" ||
      die "$(basename "$patch") does not fit this kernel" \
        "set SOFT_RDMA_KERNEL_SOURCE to a linux-6.12.*.tar.xz from kernel.org, or adapt the patch"
  done
  make -s -C "$tree" ARCH=um KCONFIG_ALLCONFIG="$HERE/config" allnoconfig >"$work/config.log" 2>&1 ||
    { cat "$work/config.log" >&2; die "the kernel cannot be configured" "see the messages above"; }
  missing=$(grep '^CONFIG_' "$HERE/config" | sort | comm -23 - <(sort "$tree/.config"))
  [ -z "$missing" ] || die "this kernel does not take: $(paste -sd' ' <<<"$missing")" \
    "see what the options depend on; set them in hack/lab/soft-rdma/kernel/config"
  logged "$CACHE/build.log" \
    '^  AR +((block|crypto|drivers|fs|init|kernel|lib|mm|net|arch)|drivers/(base|pci|infiniband)|net/(core|ipv4|ipv6))/built-in\.a|^  LD +linux|rror' \
    nice make -C "$tree" ARCH=um -j "$(nproc)" linux ||
    die "the kernel could not be compiled" "see the messages above"
  strip -o "$2.new" "$tree/linux"
  mv "$2.new" "$2"
}

identity=$({ echo "$DIGEST"; cat "$HERE/config" "$HERE"/patches/*.patch "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-16)
kernel=$CACHE/linux-$identity
if [ ! -x "$kernel" ]; then
  # Two builds at once would do all the work twice.
  exec 9>"$CACHE/build.lock"
  flock 9
  if [ ! -x "$kernel" ]; then
    need make gcc ld flex bison bc patch xz dpkg strip
    step "building the kernel of the soft-RDMA lanes, once ($(nproc) jobs)"
    start=$SECONDS
    rm -rf "$CACHE"/build.*/
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    build "$work" "$kernel" 9>&-
    note "$(printf 'built in %d s: %s' $((SECONDS - start)) "$kernel")"
    [ "$SOURCE" != newest ] || note "once the tests pass on it, write to hack/lab/soft-rdma/kernel/source: $PACKAGE $VERSION $DIGEST"
  fi
fi
if [ "${1:-}" = --path ]; then echo "$kernel"; fi
