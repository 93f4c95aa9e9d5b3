# shellcheck shell=bash
# The guest's disk: what its containerd and kubelet keep, with all images unpacked already, since an emulated processor
# would take minutes for that.

plugin_image() {  # plugin_image FILE
  local applet links=()  # what plugin-entry.sh uses
  for applet in sh mount mkdir ln cat readlink basename; do links+=(-link "/bin/$applet=/bin/busybox"); done
  "$BIN/mkimage" -o "$1" -t "$PLUGIN_IMAGE" -entrypoint /bin/sh,/entry.sh "${links[@]}" "$(command -v busybox):/bin/busybox" \
    "$QEMU/kubernetes/plugin-entry.sh:/entry.sh" "$RDMA_BIN/k8s-rdma-shared-dp:/k8s-rdma-shared-dp" \
    /usr/share/misc/pci.ids:/usr/share/misc/pci.ids
}

# disk_make FILE ARCHIVE...: with a containerd of this machine's, whose folders only this mount namespace sees.
disk_make() {
  local file=$1 tree=$CLUSTER_DIR/disk archive containerd
  shift
  mkdir -p "$tree/containerd" "$tree/kubelet"
  containerd_config | sed "s#^root = .*#root = \"$tree/containerd\"#" >"$CLUSTER_DIR/containerd.toml"
  containerd --config "$CLUSTER_DIR/containerd.toml" >"$LOGS/containerd-here.log" 2>&1 &
  containerd=$!
  wait_for 30 "containerd (see $LOGS/containerd-here.log)" ctr -a "$CRI_SOCKET" version
  for archive in "$@"; do
    ctr -a "$CRI_SOCKET" -n k8s.io images import --local --discard-unpacked-layers --platform linux/amd64 "$archive" \
      >>"$LOGS/import.log" 2>&1 || die "$archive was not imported" "see $LOGS/import.log"
  done
  kill "$containerd"
  wait "$containerd" || true
  rm -f "$file"
  mkfs.ext4 -q -O ^has_journal -d "$tree" "$file" 2G >/dev/null
  rm -rf "$tree"
}
