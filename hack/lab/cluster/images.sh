#!/usr/bin/env bash
# The images the cluster itself runs: pause, CoreDNS, and a busybox for tests. Made from built programs
# and Debian's busybox, so that no registry is needed. Prints the folder of the archives.
#
#   hack/lab/cluster/images.sh [busybox]    busybox: that one alone, for clusters that have the others
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
. "$HERE/local/settings.sh"
need gcc strip apt-get dpkg ldd
MAKER=make_images
[ $# = 0 ] || { TOOLSET=$KIND_TOOLSET MAKER=busybox_image; }

BIN=$(toolset_bin)
OUT=$PEERCACHE_CACHE/cluster-images/$({ echo "$BIN"; cat "${BASH_SOURCE[0]}"; echo "$*"; } | sha256sum | cut -c1-64)

make_images() {
  local dir=$1 source
  step "images of the cluster: pause, coredns, busybox"
  source=$(cd "$TOOLS_DIR/$KUBE" && go list -m -f '{{.Dir}}' k8s.io/kubernetes)
  gcc -Os -Wall -static -DVERSION="${PAUSE_IMAGE##*:}" -o "$dir/pause" "$source/build/pause/linux/pause.c"
  strip "$dir/pause"
  "$BIN/mkimage" -o "$dir/pause.tar" -t "$PAUSE_IMAGE" -entrypoint /pause -user 65535:65535 "$dir/pause:/pause"
  "$BIN/mkimage" -o "$dir/coredns.tar" -t "$(awk '$1 == "image:" {print $2}' "$HERE/coredns.yaml")" \
    -entrypoint /coredns "$BIN/coredns:/coredns"
  busybox_image "$dir"
  rm "$dir/pause"
}

# Not Debian's static busybox: without the C library's own files it resolves no names. (Debian's
# `wget -T` crashes in either; tests use `timeout`.)
busybox_image() {  # busybox_image DIR
  local dir=$1 busybox applet library files=() links=()
  (cd "$dir" && retried apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root download busybox >&2 &&
    dpkg -x busybox_*.deb root && rm busybox_*.deb) ||
    die "Debian's package busybox cannot be downloaded" "see the messages above; apt-get update where the lists are old"
  busybox=$dir/root/bin/busybox
  files=("$busybox:/bin/busybox")
  for library in $(ldd "$busybox" | grep -oE '/[^ ]+'); do files+=("$(readlink -f "$library"):$library"); done
  for applet in $("$busybox" --list); do
    [ "$applet" = busybox ] || links+=(-link "/bin/$applet=/bin/busybox")
  done
  "$BIN/mkimage" -o "$dir/busybox.tar" -t docker.io/library/busybox:stable -cmd /bin/sh "${links[@]}" "${files[@]}"
  rm -r "$dir/root"
}

made_once "$OUT" "$MAKER"
echo "$OUT"
