#!/usr/bin/env bash
# Writes dist/bare-metal/peercache-bare-metal-VERSION.tar.gz: the systemd unit, the compose file, the alerts and the Grafana
# dashboards, for machines without Kubernetes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

VERSION=$(<"$PEERCACHE_ROOT/VERSION")
OUT=${RELEASE_OUT:-$PEERCACHE_ROOT/dist}/bare-metal
name=peercache-bare-metal-$VERSION
mkdir -p "$OUT"
# The same tree gives the same archive, so that a checksum can be checked by building again.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=u=rwX,go=rX --exclude=kustomization.yaml \
  --transform="s,^,$name/," -C "$PEERCACHE_ROOT" -cf - LICENSE -C config bare-metal grafana | gzip -9n >"$OUT/$name.tar.gz"
note "$OUT/$name.tar.gz"
