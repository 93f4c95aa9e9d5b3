# shellcheck shell=bash
# Sourced by both run.sh: the files that host and guest share, and the end of a guest. In this order:
#
#   guest_files INIT FOLDER CMD...    makes $own, which the guest reads and answers to; exports WORK
#   GUEST... >"$own/output" 2>&1 & guest=$!
#   guest_end SECONDS HINT CMD...     waits, and exits as the command in the guest did

own='' guest='' watch=''

# The guest does not outlive whoever started it.
# shellcheck disable=SC2317  # called by the traps
guest_finish() {
  [ -z "$guest" ] || kill -KILL "$guest" 2>/dev/null || true
  [ -z "$watch" ] || kill "$watch" 2>/dev/null || true
  [ -z "$own" ] || rm -rf "$own"
}
trap guest_finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# guest_files INIT FOLDER CMD...: INIT is the script of the guest's first process, FOLDER (may be empty) what CMD may write.
guest_files() {
  own=$(mktemp -d "${TMPDIR:-/tmp}/soft-rdma.XXXXXX")
  cp "$1" "$own/init"
  WORK=${2:-$own/work}
  mkdir -p "$WORK"
  WORK=$(cd "$WORK" && pwd)
  export WORK
  printf '%s\n' "$WORK" "$PWD" "$PEERCACHE_ROOT" "$PEERCACHE_CACHE" >"$own/folders"
  (unset TMPDIR HOME TERM OLDPWD SHLVL; export -p) >"$own/environment"
  shift 2
  printf '%q ' "$@" >"$own/command"
  mkfifo "$own/output"
  { stdbuf -oL tr -d '\r' | tee "$own/console" |
    grep --line-buffered -avE '^(Core dump limits|\s*(soft|hard) - |Checking |reboot: )' || true; } <"$own/output" &
  filter=$!
}

guest_end() {
  local seconds=$1 hint=$2 over=0 status=0 keep=$PEERCACHE_CACHE/soft-rdma/failed-console.log reason
  shift 2
  timeout "$seconds" tail --pid="$guest" -s 0.1 -f /dev/null &
  watch=$!
  wait "$watch" || over=$?
  [ $over = 0 ] || kill -KILL "$guest" 2>/dev/null || true
  wait "$guest" 2>/dev/null || status=$?
  guest='' watch=''
  wait "$filter"
  if [ -s "$own/status" ]; then exit "$(cat "$own/status")"; fi

  cp "$own/console" "$keep"
  if reason=$(grep -am1 -E 'Kernel panic|BUG:|Oops' "$own/console"); then
    printf 'error: the kernel of the guest failed: %s\n  fix: see %s; %s\n' "$reason" "$keep" "$hint" >&2
    exit 125
  fi
  if [ $over = 124 ]; then
    printf "error: the guest's command had not ended after %s s: %s\n  fix: see the end of %s; give it more with --time\n" \
      "$seconds" "$*" "$keep" >&2
    exit 124
  fi
  printf 'error: the guest ended without a result (status %s)\n  fix: see %s; %s\n' "$status" "$keep" "$hint" >&2
  exit 125
}
