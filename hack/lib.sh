# shellcheck shell=bash
# Sourced by every script under hack/: where things are cached, how progress and errors are shown.
#
#   . "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
#   step "building the engine image"; die "what is wrong" "what to do next"

PEERCACHE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Everything that is expensive to make and can be made again. Outside the tree, so that a fresh
# clone, `git clean` or a CI job that keeps only this folder all start warm.
PEERCACHE_CACHE=${PEERCACHE_CACHE:-${HOME:-/root}/.cache/peercache}
export PEERCACHE_ROOT PEERCACHE_CACHE

step() { printf '==> %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }

# die WHAT [NEXT]: what went wrong, and what to do about it.
die() {
  printf 'error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '  fix: %s\n' "$2" >&2
  exit 1
}

need() {  # need CMD...: commands that must be on PATH
  local c
  for c in "$@"; do
    command -v "$c" >/dev/null || die "command '$c' is not installed" "run hack/dev/deps.sh"
  done
}

need_root() {
  [ "$(id -u)" = 0 ] || die "$(basename "$0") has to run as root" "run it again with sudo -E"
}

# As Go and images name it.
machine_architecture() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# logged LOG PATTERN CMD...: CMD's output goes to LOG; lines that match the extended regular expression PATTERN are
# also shown, as progress. When CMD fails, so is the end of LOG.
logged() {
  local log=$1 pattern=$2
  shift 2
  if ! "$@" 2>&1 | tee "$log" | { grep --line-buffered -E -- "$pattern" || true; } |
      sed -u 's/^\(.\{140\}\).*/\1.../; s/^/    /' >&2; then
    tail -30 "$log" >&2
    note "all of it: $log"
    return 1
  fi
}

# Seconds before each further try of `retried`: a mirror that refuses does so for moments, or for good.
RETRY_PAUSES=(5 15 45)

# retried CMD...: a download, tried again while it fails. Its status is that of the last try. CMD says itself why it fails.
retried() {
  local pause status
  for pause in "${RETRY_PAUSES[@]}" ''; do
    status=0
    "$@" || status=$?
    if [ $status = 0 ] || [ -z "$pause" ]; then return $status; fi
    note "failed with status $status, tried again in $pause s: $*"
    sleep "$pause"
  done
}

# standard_streams_only CMD...: CMD without the other descriptors that are open here, as locks are.
standard_streams_only() (
  for fd in "/proc/$BASHPID/fd/"*; do
    fd=${fd##*/}
    # Bash reads the script from its own, 255.
    if [ "$fd" -gt 2 ] && [ "$fd" -ne 255 ]; then eval "exec $fd>&-"; fi
  done
  exec "$@"
)

# wait_for SECONDS WHAT CMD...: polls until CMD succeeds.
wait_for() {
  local limit=$1 what=$2 end=$((SECONDS + $1))
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { printf 'error: %s: not within %ss\n' "$what" "$limit" >&2; return 1; }
    sleep 0.3
  done
}

# virtual_environment WHAT DIR REQUIREMENTS [OPTION...]: DIR, with what REQUIREMENTS pins by digest, made once; WHAT is for
# people, the options are pip's. Not by made_once: the programs in it name the folder they were made in.
virtual_environment() (
  what=$1 dir=$2 requirements=$3 python=${PYTHON:-/usr/bin/python3}
  shift 3
  mkdir -p "${dir%/*}"
  exec 9>"$dir.lock"
  flock 9  # one run at a time installs
  [ ! -e "$dir/complete" ] || exit 0
  step "installing $what"
  rm -rf "$dir"
  "$python" -m venv "$dir" || die "$python cannot make a virtual environment" "apt-get install python3-venv"
  retried "$dir/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: "$@" -r "$requirements" >&2 ||
    die "pip cannot install $requirements" \
      "check the network and the package index (pip config list), and that $requirements has digests for $python"
  touch "$dir/complete"
)

# made_once DIR CMD...: the folder DIR, filled by CMD DIR the first time. When that is cut short, nothing stays.
made_once() {
  local out=$1
  shift
  [ ! -d "$out" ] || return 0
  mkdir -p "$(dirname "$out")"
  (
    tmp=$(mktemp -d "$out.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    "$@" "$tmp"
    chmod 755 "$tmp"
    mv "$tmp" "$out"
  )
}
