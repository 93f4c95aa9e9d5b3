# shellcheck shell=bash
# Roots made from packages, in which a commit is built and tested. Sourced by the scripts of this folder.

# make_root DIR SUITE MIRROR COMPONENTS PACKAGES [OPTION...]: a root with PACKAGES, a comma between them, unless there is one; the options
# are mmdebstrap's.
make_root() {
  local root=$1 suite=$2 mirror=$3 components=$4 packages=$5 archive=${3##*/} keys=()
  shift 5
  [ ! -d "$root" ] || return 0
  step "making a root of $suite from packages"
  rm -rf "$root.new"
  mkdir -p "$root.new"
  # Each package is checked against the digests of the release. Where its keys are not known here, nothing checks those.
  [ -f "/usr/share/keyrings/$archive-archive-keyring.gpg" ] || {
    note "no keyring of $archive here: what $mirror says is believed"
    keys=(--aptopt='Acquire::AllowInsecureRepositories "true"' --aptopt='APT::Get::AllowUnauthenticated "true"')
  }
  retried logged "$root.log" '^(E: |Err:)' mmdebstrap --variant=minbase --components="$components" "${keys[@]}" \
    --aptopt='Acquire::Retries "3"' --include="apt,ca-certificates,git,make,util-linux${packages:+,$packages}" "$@" \
    "$suite" "$root.new" "$mirror" ||
    die "mmdebstrap could not make $root from packages" "see the messages above; does $mirror answer?"
  mv "$root.new" "$root"
}

# update_root DIR: what is committed here, at /peercache; whom this machine trusts besides, and how it reaches others.
update_root() {
  cp /etc/resolv.conf /etc/hosts "$1/etc/"
  if [ -n "$(ls /usr/local/share/ca-certificates)" ]; then
    cp /usr/local/share/ca-certificates/* "$1/usr/local/share/ca-certificates/"
    chroot "$1" update-ca-certificates >/dev/null 2>&1
  fi
  [ -d "$1/peercache/.git" ] || git init -q "$1/peercache"
  git -C "$1/peercache" fetch -q --update-shallow "$PEERCACHE_ROOT" HEAD
  git -C "$1/peercache" checkout -qf --detach FETCH_HEAD
}

# in_root DIR COMMAND: in /peercache there.
# Mounts of its own, which end with it. The root becomes that of the mounts, so that whoever enters them is in it too.
in_root() {
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
      PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash -c "cd /peercache && git config --global --add safe.directory /peercache && $2"
  ' - "$1" "$2"
}
