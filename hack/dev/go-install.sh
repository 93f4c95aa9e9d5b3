#!/usr/bin/env bash
# Installs a program of a Go module: go-install.sh MODULE VERSION DIGEST PACKAGE FOLDER
#
# DIGEST is the module's, as go.sum has it. What the module needs has versions there, and digests in Go's checksum database.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../lib.sh"
need go jq

[ $# = 5 ] || die "$# arguments" "go-install.sh MODULE VERSION DIGEST PACKAGE FOLDER"
module=$1 version=$2 digest=$3 package=$4 folder=$5
# Outside of every module: the versions are those of the program's own.
cd /
found=$(retried go mod download -json "$module@$version" | jq -r .Sum) ||
  die "$module $version cannot be had" "see the message above; is GOPROXY=$(go env GOPROXY) reachable?"
[ "$found" = "$digest" ] ||
  die "$module $version has the digest $found, expected $digest" "look where it came from (go env GOPROXY); do not build it"
mkdir -p "$folder"
GOBIN=$folder retried go install "$module/$package@$version"
