#!/usr/bin/env bash
# Builds PeerCache and runs its C++ unit tests on another system that it supports, in a root made from packages.
#
#   hack/hosts/test.sh debian-13 | ubuntu-24.04 | debian-12 [make target ...]     (deps build test-cpp)
#   CI= hack/hosts/test.sh ubuntu-24.04 demo        # without chromium, which is a snap there: no picture at the end
#
# The root lies in the cache, and what was built in it stays there for the next time: half an hour when cold, on two
# cores. What is committed is built. Needs root and mmdebstrap.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../lib.sh"

host=${1:-}
shift || true
export CI=${CI-true}
targets=("${@:-deps build test-cpp}")
case $host in
  debian-12) suite=bookworm mirror=http://deb.debian.org/debian components=main ;;
  debian-13) suite=trixie mirror=http://deb.debian.org/debian components=main ;;
  ubuntu-24.04) suite=noble mirror=http://archive.ubuntu.com/ubuntu components=main,universe ;;
  *) die "no host '$host'" "name one of: debian-12 debian-13 ubuntu-24.04" ;;
esac
need_root
need mmdebstrap

ROOT=$PEERCACHE_CACHE/hosts/$host
make_root() {
  step "making a root of $host from packages"
  rm -rf "$ROOT" "$ROOT.new"
  mkdir -p "$ROOT.new"
  # Each package is checked against the digests of the release. Where its keys are not known here, nothing checks those.
  local keys=() archive=${mirror##*/}
  [ -f "/usr/share/keyrings/$archive-archive-keyring.gpg" ] || {
    note "no keyring of $archive here: what $mirror says is believed"
    keys=(--aptopt='Acquire::AllowInsecureRepositories "true"' --aptopt='APT::Get::AllowUnauthenticated "true"')
  }
  retried logged "$PEERCACHE_CACHE/hosts/$host.log" '^(E: |Err:)' mmdebstrap --variant=minbase --components=$components "${keys[@]}" \
    --aptopt='Acquire::Retries "3"' --include=apt,ca-certificates,git,make,util-linux $suite "$ROOT.new" $mirror ||
    die "mmdebstrap could not make $host from packages" "see the messages above; does $mirror answer?"
  mv "$ROOT.new" "$ROOT"
}
[ -d "$ROOT" ] || make_root

# Whom this machine trusts besides, and how it reaches others.
cp /etc/resolv.conf /etc/hosts "$ROOT/etc/"
if [ -n "$(ls /usr/local/share/ca-certificates)" ]; then
  cp /usr/local/share/ca-certificates/* "$ROOT/usr/local/share/ca-certificates/"
  chroot "$ROOT" update-ca-certificates >/dev/null 2>&1
fi
[ -d "$ROOT/peercache/.git" ] || git init -q "$ROOT/peercache"
git -C "$ROOT/peercache" fetch -q --update-shallow "$PEERCACHE_ROOT" HEAD
git -C "$ROOT/peercache" checkout -qf --detach FETCH_HEAD

step "$host: make ${targets[*]}"
# Mounts of its own, which end with it. The root becomes that of the mounts, so that whoever enters them is in it too.
# shellcheck disable=SC2016  # that shell expands it
unshare --mount --propagation private bash -euo pipefail -c '
  mount --rbind "$1" "$1"
  cd "$1"
  for dir in proc sys dev; do mount --rbind "/$dir" "$dir"; done
  mkdir -p .old
  pivot_root . .old
  cd /
  umount -l .old
  exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${CI:+CI=true} \
    ${GOPROXY:+GOPROXY="$GOPROXY"} ${GOFLAGS:+GOFLAGS="$GOFLAGS"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash -c "cd /peercache && git config --global --add safe.directory /peercache && make $2"
' - "$ROOT" "${targets[*]}"
note "$host: passed"
