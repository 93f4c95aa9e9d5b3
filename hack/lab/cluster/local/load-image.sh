# shellcheck shell=bash
# Imports docker archives into the containerd of every node, and checks what arrived.

# An image is known by the digest of its configuration: the same in the archive and in containerd.
archive_images() {  # archive_images FILE -> lines "REF CONFIG-DIGEST"
  tar -xOf "$1" manifest.json | jq -r '.[] | .Config as $c | .RepoTags[] | . + " " + $c' |
    sed -E 's#(sha256:)?([0-9a-f]{64})(\.json)?$#sha256:\2#; s#blobs/sha256/##'
}

node_image_config() {  # node_image_config NODE REF -> CONFIG-DIGEST, or fails
  local manifest
  manifest=$(node_ctr "$1" images list "name==$2" | awk 'NR == 2 {print $3}')
  [ -n "$manifest" ] && node_ctr "$1" content get "$manifest" | jq -re .config.digest
}

# Warnings that containerd repeats on every call (cgroup v1) are not of this command.
node_ctr() {
  provider_node_exec "$1" ctr -a "$CRI_SOCKET" -n k8s.io "${@:2}" 2> >(grep -v level=warning >&2)
}

# Image volumes ask for an image by the digest of its configuration, a name that the CRI plug-in adds.
has_all() {  # has_all NODE FILE
  local ref config
  while read -r ref config; do
    [ "$(node_image_config "$1" "$ref" 2>/dev/null)" = "$config" ] || return 1
    [ -n "$(node_ctr "$1" images list --quiet "name==$config")" ] || return 1
  done < <(archive_images "$2")
}

import_one() {  # import_one NODE FILE
  local ref try
  has_all "$1" "$2" && return 0
  # The plug-in adds it when a tag appears, not when a tag moves.
  while read -r ref _; do
    node_ctr "$1" images remove --sync "$ref" >/dev/null 2>&1 </dev/null || true
  done < <(archive_images "$2")
  # Containerd keeps an old tag on its old image when an import is cut short: hence the check after it.
  if node_ctr "$1" images import --local --discard-unpacked-layers --platform linux/amd64 - < "$2" >/dev/null; then
    for ((try = 0; try < 50; ++try)); do  # the plug-in hears of it a moment later
      has_all "$1" "$2" && return 0
      sleep 0.2
    done
  fi
  printf 'error: %s was not imported on %s\n' "$2" "$1" >&2
  return 1
}

load_images() {
  local file node pid pids start
  for file in "$@"; do
    [ -n "$(archive_images "$file" 2>/dev/null)" ] ||
      die "'$file' is no docker archive with a tagged image" "write it with: buildah push IMAGE docker-archive:FILE:IMAGE"
    start=$SECONDS pids=()
    for node in "${NODES[@]}"; do
      # Two at a time: unpacking is bound by the disk, more only make each slower.
      if [ ${#pids[@]} -ge 2 ]; then
        wait "${pids[0]}" || die "loading $file failed" "see the message above, and $(node_dir "$node")/log/containerd.log"
        pids=("${pids[@]:1}")
      fi
      import_one "$node" "$file" &
      pids+=($!)
    done
    for pid in "${pids[@]}"; do
      wait "$pid" || die "loading $file failed" "see the message above, and $CLUSTER_DIR/*/log/containerd.log"
    done
    note "$(archive_images "$file" | cut -d' ' -f1 | paste -sd' ') on ${NODES[*]} ($((SECONDS - start)) s)"
  done
}
