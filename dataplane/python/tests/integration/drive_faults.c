/* Loaded before a process (LD_PRELOAD): what its drives do, of those that it reads and writes by
 * preadv, pwritev and fdatasync (disk-io threads). DRIVE_FAULTS names a file that is mapped, of struct faults:
 * it may be written at any time, and counts what was asked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t Transfer(int, const struct iovec *, int, off_t);

static volatile struct faults {
  int64_t read_errno, write_errno;       /* with which each fails; 0: none */
  int64_t read_delay_ns, write_delay_ns; /* before each, while it is not 0 */
  int64_t flips;                         /* whether each read brings one wrong bit */
  int64_t reads, writes;                 /* how many were asked for */
  int64_t sync_delay_ns;
  int64_t syncs, synced; /* how many were asked for, and how many of them have ended */
} * faults;

__attribute__((constructor)) static void start(void) {
  const char *file = getenv("DRIVE_FAULTS");
  if (file == NULL) return;
  void *map =
      mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, open(file, O_RDWR), 0);
  if (map == MAP_FAILED) abort();
  faults = map;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

/* A wait ends where the delay is taken back meanwhile. */
static int wait_and_fail(volatile const int64_t *delay, int64_t error) {
  const struct timespec moment = {0, 1000000};
  const int64_t begun = *delay == 0 ? 0 : now_ns();
  for (int64_t left; *delay != 0 && (left = begun + *delay - now_ns()) > 0;) {
    const struct timespec last = {0, left};
    nanosleep(left < moment.tv_nsec ? &last : &moment, NULL);
  }
  errno = (int)error;
  return error != 0;
}

ssize_t preadv(int file, const struct iovec *parts, int count, off_t offset) {
  static Transfer *real;
  if (real == NULL) real = (Transfer *)dlsym(RTLD_NEXT, "preadv");
  if (faults == NULL) return real(file, parts, count, offset);
  __atomic_add_fetch(&faults->reads, 1, __ATOMIC_RELAXED);
  if (wait_and_fail(&faults->read_delay_ns, faults->read_errno)) return -1;
  const ssize_t got = real(file, parts, count, offset);
  if (got > 0 && faults->flips) ((char *)parts[0].iov_base)[parts[0].iov_len / 2] ^= 1;
  return got;
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
  static Transfer *real;
  if (real == NULL) real = (Transfer *)dlsym(RTLD_NEXT, "pwritev");
  if (faults == NULL) return real(file, parts, count, offset);
  __atomic_add_fetch(&faults->writes, 1, __ATOMIC_RELAXED);
  if (wait_and_fail(&faults->write_delay_ns, faults->write_errno)) return -1;
  return real(file, parts, count, offset);
}

int fdatasync(int file) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  if (faults == NULL) return real(file);
  __atomic_add_fetch(&faults->syncs, 1, __ATOMIC_RELAXED);
  wait_and_fail(&faults->sync_delay_ns, 0);
  const int result = real(file);
  __atomic_add_fetch(&faults->synced, 1, __ATOMIC_RELAXED);
  return result;
}
