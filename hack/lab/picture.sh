#!/usr/bin/env bash
# A picture of a page, by the browser of this machine. Where there is none, it says so; in CI, which has a browser, it fails.
#
#   hack/lab/picture.sh URL FILE.png
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

URL=$1 PICTURE=$2

without() {  # without WHY
  [ -z "${CI:-}" ] || die "no picture of $URL: $1" "hack/dev/deps.sh --cluster installs chromium"
  note "no picture of it: $1"
  exit 0
}

rm -f "$PICTURE"  # of an earlier run
BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  without "there is no chromium on this machine"
mkdir -p "$(dirname "$PICTURE")"
timeout 60 "$BROWSER" --headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync \
  --hide-scrollbars --window-size=1280,2200 --virtual-time-budget=10000 --screenshot="$PICTURE" "$URL" >/dev/null 2>&1 || true
[ -s "$PICTURE" ] || without "$BROWSER made none"
note "a picture of it: $PICTURE"
