# shellcheck shell=bash
# Programs of arm64 run on this machine, by an emulator: what they start, and what is started in a root of that architecture, too.
# Where the machine does not do so already, the kernel is told for the time of the script.

# emulate_arm64 EMULATOR: qemu-aarch64-static.
emulate_arm64() {
  [ "$(machine_architecture)" != arm64 ] && [ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || return 0
  need_root
  [ -x "$1" ] || die "no emulator runs programs of arm64 here: qemu-aarch64-static is not installed" "ARCH=arm64 hack/dev/deps.sh"
  local zero='\x00\x00\x00\x00\x00\x00\x00\x00' any='\xff\xff\xff\xff\xff\xff\xff\xff'
  EMULATORS=$(mktemp -d)
  mount -t binfmt_misc none "$EMULATORS" || {
    rmdir "$EMULATORS"
    EMULATORS=
    die "this kernel runs no emulators (binfmt_misc)" "run it on a machine of arm64, or where the kernel has them"
  }
  # An ELF file of 64 bits for arm64, a program or a library. F: the emulator is opened now, so that roots need not have it.
  printf '%s' ":peercache-$$:M::\x7fELF\x02\x01\x01\x00$zero\x02\x00\xb7\x00:${any/%\\xff/\\x00}$any\xfe\xff\xff\xff:$1:POCF" >"$EMULATORS/register"
}

emulate_arm64_no_more() {
  [ -n "${EMULATORS:-}" ] || return 0
  echo -1 >"$EMULATORS/peercache-$$"
  umount "$EMULATORS"
  rmdir "$EMULATORS"
  EMULATORS=
}
