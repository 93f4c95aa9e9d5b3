# shellcheck shell=bash
# In the guest of ../tests/05-user-mode.sh: the command of docs/dev/rdma.md, "Lookups", with fewer pages.
. hack/lab/soft-rdma/fabric.sh
export PYTHONPATH=dataplane/python

fabric_up
echo guest >/proc/sys/kernel/hostname  # nodes are called after it
on A /usr/bin/python3 -m peercache_bench lookups --build "${PEERCACHE_BUILD:-dataplane/build/release}" --protocol rdma \
  --devices "$(rail_device A 0),$(rail_device A 1)" --page-size 4k --working-set 64 --batch-size 8 --op exists \
  --duration 0.5 --warmup 0 --out-dir "$WORK/lookups"
jq -e '.results | length >= 4 and all(.figures.hit_ratio == 1)' "$WORK/lookups/lookups.json" >/dev/null ||
  { jq .results "$WORK/lookups/lookups.json"; exit 1; }
