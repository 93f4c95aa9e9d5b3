#!/usr/bin/env bash
# What the add-on `monitoring` runs: images of the Prometheus Operator, of its reloader and of Prometheus, and the
# manifests. Prints the folder.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$HERE/../../lib.sh"
. "$HERE/toolset.sh"
need go jq

MADE_WITH=$(toolset_bin)
BIN=$("$HERE/build.sh" --monitoring)
OUT=$PEERCACHE_CACHE/monitoring/$({ echo "$MADE_WITH $BIN"; cat "${BASH_SOURCE[0]}" "$HERE"/monitoring/*.yaml; } |
  sha256sum | cut -c1-64)

image_of() { echo "docker.io/peercache/test-$1:cluster"; }

make_all() {  # make_all DIR
  local dir=$1 program operator version
  step "the add-on monitoring: prometheus-operator, its reloader, prometheus"
  operator=$(module_dir prometheus github.com/prometheus-operator/prometheus-operator)
  # Prometheus 3.10.0 is the module's v0.310.0.
  version=$(cd "$TOOLS_DIR/prometheus" && go list -m -f '{{.Version}}' github.com/prometheus/prometheus |
    sed -E 's/^v0\.([0-9])([0-9]{2})\./v\1.\2./; s/\.0([0-9])\./.\1./')
  for program in prometheus prometheus-operator prometheus-config-reloader; do
    "$MADE_WITH/mkimage" -o "$dir/$program.tar" -t "$(image_of $program)" -entrypoint "/bin/$program" "$BIN/$program:/bin/$program"
  done
  # Its Service for kubelets would stay in kube-system, and its limit makes everything wait.
  {
    cat "$HERE/monitoring/access.yaml"
    sed -e '/--kubelet-/d' -e 's/^\(  *\)namespace: default$/\1namespace: monitoring/' -e 's/^\( *\)cpu: 200m$/\1cpu: "1"/' \
      -e "s#--prometheus-config-reloader=.*#--prometheus-config-reloader=$(image_of prometheus-config-reloader)#" \
      -e "s#image: .*/prometheus-operator:.*#image: $(image_of prometheus-operator)#" "$operator/bundle.yaml"
  } > "$dir/prometheus-operator.yaml"
  sed -e "s#IMAGE#$(image_of prometheus)#; s#VERSION#$version#" "$HERE/monitoring/prometheus.yaml" > "$dir/prometheus.yaml"
}

made_once "$OUT" make_all
echo "$OUT"
