#!/usr/bin/env bash
# Fails when two of the Go modules here (the operator's, the recipes', and the tools' of the cluster) need different versions of a
# module: Go then compiles it, and all that builds on it, once for each. Aligning them took a quarter off a cold build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# kind builds by itself in seconds, older Kubernetes needs what it was released with, and v0.0.0 stands for what
# Kubernetes' own repository replaces. A line that says `apart:` says why.
# shellcheck disable=SC2016  # an awk program
git ls-files go.mod hack/lab/recipes/go.mod 'hack/lab/cluster/tools/*/go.mod' | grep -vE '/(kind|kube-1\.[0-9]+)/' | xargs awk '
  $1 == "exclude" && $2 == "(" { excluded = 1 }
  $1 == ")" { excluded = 0 }
  excluded || /(;|\/\/) apart: / { next }
  $1 == "require" && NF >= 3 { sub(/^require /, "") }
  $1 ~ /\./ && $2 ~ /^v/ && $2 != "v0.0.0" && !/=>/ {
    if ($1 in version && version[$1] != $2) {
      printf "error: %s is %s in %s and %s in %s\n  fix: go get %s@VERSION in both folders\n", $1, version[$1], where[$1], $2, FILENAME, $1
      differ = 1
    }
    version[$1] = $2; where[$1] = FILENAME
  }
  END { exit differ }'
