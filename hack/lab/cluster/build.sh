#!/usr/bin/env bash
# Builds Kubernetes and its companions from the Go module proxy, once: about ten minutes of two cores
# when cold, a second when nothing changed.
#
#   hack/lab/cluster/build.sh             build what is missing, print one line per program
#   hack/lab/cluster/build.sh --bin-dir   the same, then print the folder that holds them all
#   hack/lab/cluster/build.sh --kind      what a cluster of kind needs, without Kubernetes, then print the folder
#   hack/lab/cluster/build.sh --monitoring   what the add-on monitoring needs, then print the folder: four minutes when cold
#   hack/lab/cluster/build.sh --rdma      what make test-rdma-kubernetes needs besides, then print the folder
#   hack/lab/cluster/build.sh --push      what make push needs, then print the folder
#   hack/lab/cluster/build.sh --registry  the registry that tests push to, then print the folder
#   hack/lab/cluster/build.sh --policies  what the add-on policies needs, then print the folder
#   hack/lab/cluster/build.sh --lws       what the add-on lws needs, then print the folder
#   hack/lab/cluster/build.sh --api       an API server to test on, then print the folder
#
# KUBERNETES=1.31 in the environment asks for that version, in each of them.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
need go

case ${1:-} in
  '' | --bin-dir) ;;
  --kind) TOOLSET=$KIND_TOOLSET ;;
  --monitoring) TOOLSET=$MONITORING_TOOLSET ;;
  --rdma) TOOLSET=$RDMA_TOOLSET ;;
  --push) TOOLSET=$PUSH_TOOLSET ;;
  --registry) TOOLSET=$REGISTRY_TOOLSET ;;
  --policies) TOOLSET=$POLICIES_TOOLSET ;;
  --lws) TOOLSET=$LWS_TOOLSET ;;
  --api) TOOLSET=$API_TOOLSET ;;
  *) die "unknown argument '$1'" "hack/lab/cluster/build.sh [--bin-dir | --kind | --monitoring | --rdma | --push | --registry | --policies | --lws | --api]" ;;
esac

mkdir -p "$PEERCACHE_CACHE"
# Two builds at once would do all the work twice.
exec 9>"$PEERCACHE_CACHE/build.lock"
flock 9

ALL=$(toolset_bin)
total=$(awk 'NF' <<<"$TOOLSET" | wc -l) n=0
mkdir -p "$ALL"
while read -r tool program package; do
  [ -n "$tool" ] || continue
  n=$((n + 1))
  bin=$(tool_bin "$tool")
  if [ ! -x "$bin/$program" ]; then
    start=$SECONDS
    mkdir -p "$bin"
    # The modules that it is built of; `go` itself gives up at the first refusal of the proxy.
    (cd "$TOOLS_DIR/$tool" &&
      retried go list -deps -tags "$(tool_tags "$tool")" "$package" 2> >(grep -v '^go: downloading' >&2) >/dev/null) 9>&- ||
      die "the modules of $program cannot be had" "see the messages above; is GOPROXY=$(go env GOPROXY) reachable?"
    (cd "$TOOLS_DIR/$tool" &&
      nice go build -tags "$(tool_tags "$tool")" -ldflags "$(tool_ldflags "$tool")" -o "$bin/.$program" "$package" \
        2> >(grep -v '^go: downloading' >&2)) 9>&- ||
      die "building $program failed" "see the compiler's message above; modules come from GOPROXY=$(go env GOPROXY)"
    mv "$bin/.$program" "$bin/$program"
    note "$(printf '[%2d/%d] %-24s built in %4ds' "$n" "$total" "$program" $((SECONDS - start)))"
  fi
  ln -sfn "$bin/$program" "$ALL/$program"
done <<<"$TOOLSET"
if [ $# -gt 0 ]; then echo "$ALL"; else note "all $total programs: $ALL"; fi
