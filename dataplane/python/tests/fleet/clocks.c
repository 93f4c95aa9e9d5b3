/* Loaded before a process (LD_PRELOAD): the clocks that it sees.
 *
 *   CLOCKS_SLEW=N       CLOCK_MONOTONIC runs by N/12 too fast from the start of the process on, as
 *                       while chrony slews it. CLOCK_MONOTONIC_RAW is as it is.
 *   CLOCKS_STOPS=FILE   both stand still from one time to another, and then go on where they stood.
 *                       FILE: MOST_STOPS pairs of such times, nanoseconds of CLOCK_MONOTONIC_RAW;
 *                       zeros: none. It may be written until a stop begins.
 *
 * Waits of condition variables end by these clocks, as on a machine that has them. Sleeps, sockets
 * and timers of the kernel do not, and threads run on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define SECOND 1000000000L
#define TICK 2000000             /* ns: how soon a wait notices that the clock goes on */
#define LONGEST (3600L * SECOND) /* a wait in one piece */
#define MOST_STOPS 256

typedef int GetTime(clockid_t, struct timespec *);
typedef int Wait(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

static volatile const int64_t (*stops)[2];
static int64_t slew, raw_start, monotonic_start;

static int64_t number(const struct timespec *at) { return at->tv_sec * SECOND + at->tv_nsec; }
static struct timespec spec(int64_t at) { return (struct timespec){at / SECOND, at % SECOND}; }

static int real_time(clockid_t id, struct timespec *at) {
  static GetTime *real;
  if (real == NULL) real = (GetTime *)dlsym(RTLD_NEXT, "clock_gettime");
  return real(id, at);
}
static int64_t real_now(clockid_t id) {
  struct timespec at;
  real_time(id, &at);
  return number(&at);
}

__attribute__((constructor)) static void start(void) {
  const char *given = getenv("CLOCKS_STOPS"), *slewed = getenv("CLOCKS_SLEW");
  if (slewed != NULL) slew = atoi(slewed);
  raw_start = real_now(CLOCK_MONOTONIC_RAW);
  monotonic_start = real_now(CLOCK_MONOTONIC);
  if (given == NULL) return;
  void *map = mmap(NULL, MOST_STOPS * 16, PROT_READ, MAP_SHARED, open(given, O_RDONLY), 0);
  if (map == MAP_FAILED) abort();
  stops = map;
}

static int64_t now(clockid_t id) {
  if (stops == NULL) {
    const int64_t passed = real_now(id) - monotonic_start;
    return monotonic_start + passed + passed * slew / 12;
  }
  const int64_t raw = real_now(CLOCK_MONOTONIC_RAW);
  int64_t seen = raw;
  for (int i = 0; i < MOST_STOPS && stops[i][0] != 0 && stops[i][0] < raw; ++i)
    seen -= (raw < stops[i][1] ? raw : stops[i][1]) - stops[i][0];
  return id == CLOCK_MONOTONIC_RAW ? seen : seen - raw_start + monotonic_start;
}

static int changed(clockid_t id) {
  return id == CLOCK_MONOTONIC || (id == CLOCK_MONOTONIC_RAW && stops != NULL);
}

int clock_gettime(clockid_t id, struct timespec *at) {
  if (!changed(id)) return real_time(id, at);
  *at = spec(now(id));
  return 0;
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t id,
                           const struct timespec *until) {
  static Wait *real;
  if (real == NULL) real = (Wait *)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  if (!changed(id)) return real(condition, mutex, id, until);
  for (;;) {
    int64_t left = number(until) - now(id);
    left = (left < 0 ? 0 : left > LONGEST ? LONGEST : left) * 12 / (12 + slew);
    if (stops != NULL && left > 0 && left < TICK) left = TICK;
    const struct timespec end = spec(real_now(id) + left);
    const int result = real(condition, mutex, id, &end);
    if (result != ETIMEDOUT || now(id) >= number(until)) return result;
  }
}
