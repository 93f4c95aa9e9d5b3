/* libpeercache: the C API of PeerCache's client, for engines and transfer libraries.
 *
 *   pc_open -> pc_share_range -> pc_queue_open
 *     -> { pc_submit; poll(pc_queue_fd); pc_reap } -> pc_queue_close -> pc_close
 *
 * A client speaks to the member (peercached) of its own machine over a Unix socket. Pages lie in
 * this process's memory. The member copies them in place where that memory is shared with it, and
 * through a staging ring (one more copy) everywhere else.
 *
 * What always holds:
 *  - No function throws, raises a signal or ends the process because of what a caller passes, or of
 *    what a member does. Wrong arguments are PC_EINVAL, and pc_error names the field and the fix.
 *  - Without a member every page is a miss, at once. A member that comes later is found within
 *    about two seconds, and gets all shared memory again.
 *  - pc_submit, pc_reap, pc_cancel, pc_state, pc_can and pc_set_prefill never wait for the member.
 *    pc_open, pc_share_*, pc_unshare and pc_clear do, for a bounded time, and so do pc_queue_close
 *    and the last pc_close, which let ops that were taken end.
 *  - pc_submit copies the op and the lists that it names. The memory that the iovs name must stay
 *    mapped and untouched until the op's last completion, also after pc_cancel.
 *  - Each op that was taken completes exactly once for each of its pages, in at most
 *    timeout_ms and 1 ms for each 64 KiB of its pages from when it begins. One case takes longer: a
 *    GET whose member was stopped (SIGSTOP, a frozen cgroup) while it wrote into a page ends when
 *    the member continues, or when its process ends.
 *  - A page is whole: it is readable with all its bytes, or not at all. What a miss leaves in the
 *    caller's memory is undefined.
 *
 * ABI: handles are opaque. Structs that are passed in begin with their size and may grow; fields
 * that a caller does not know must be 0, and the library refuses fields of a later release that are
 * not 0. pc_key, pc_iov and pc_completion never change. Functions are only added. All symbols have
 * the version PC_1.
 *
 * Threads: any function from any thread, at the same time. Only pc_close and pc_queue_close must be
 * the last call with their handle. After fork() a child may only call exec or _exit. */
#ifndef PEERCACHE_LIBPEERCACHE_H
#define PEERCACHE_LIBPEERCACHE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct pc_client pc_client;
typedef struct pc_queue pc_queue;

typedef struct {
  uint8_t bytes[32];
} pc_key;

/* A run of bytes in this process's memory. */
typedef struct {
  uint64_t address, length;
} pc_iov;

enum {
  PC_OK = 0,
  PC_EINVAL = -1,    /* an argument is wrong; nothing was done */
  PC_EREFUSED = -2,  /* the member or the system refuses */
  PC_EFULL = -3,     /* a bound is reached: reap completions, then try again */
  PC_EOLD = -4,      /* the member's release does not know it */
  PC_ETIME = -5,     /* not in time */
  PC_ECANCELED = -6, /* by pc_cancel, before it began */
  PC_ENOMEM = -7     /* this process has no memory left */
};

/* The release of the library. */
const char* pc_version(void);
/* Why the latest call of this thread that failed did: one line, valid until this thread's next call
 * that fails. Empty before the first one. */
const char* pc_error(void);

/* Lines of the library's log go to `write`, also those of other clients of this process; level: 0
 * debug, 1 info, 2 warning, 3 error. NULL: to stderr, as at the start. `write` is called by any
 * thread, one at a time, and must not call the library. */
void pc_log(void (*write)(void* context, int level, const char* line), void* context);

/* ---- client --------------------------------------------------------------------------------- */

enum {
  PC_MAX_ENGINE = 128, /* bytes of an engine's name */
  PC_MAX_TIMEOUT_MS = 600000
};

typedef struct {
  uint32_t size;
  uint32_t timeout_ms;    /* longest an op may stall on the member; 0: 1500 */
  const char* socket;     /* the member's Unix socket; NULL: the variable PEERCACHE_SOCKET */
  const char* engine;     /* the name in the member's status, printable ASCII; NULL: "engine" */
  uint64_t staging_bytes; /* of the staging ring; 0: 64 MiB */
} pc_open_args;

/* PC_OK also when there is no member yet. PC_EREFUSED where waiting would not help: no socket can
 * have such a path, what listens there is not a member, or the member refuses this engine. Waits up
 * to 6 s for a member that has taken the connection. */
int pc_open(const pc_open_args* args, pc_client** client);
/* NULL is allowed. Queues that are still open keep the connection. */
void pc_close(pc_client* client);

enum { PC_CAN_PRESENCE = 1 };
/* What the member that is attached now can do; 0 without one. */
uint64_t pc_can(pc_client* client);

/* How many tokens' KV this engine computes in a second; 0, as at the start: not known. Ops that
 * name their page_tokens then wait no longer than computing their pages takes (at least 100 ms),
 * and pages that are known to take longer are misses. May be called at any time: the member learns
 * it with the next op. */
int pc_set_prefill(pc_client* client, uint32_t tokens_per_second);

typedef struct {
  uint32_t size;
  uint32_t attached; /* 1: ops reach a member */
  /* Since pc_open. Pages, but for bytes and the last two. */
  uint64_t set_pages, set_failed, get_pages, get_hits, presence_pages, presence_hits;
  uint64_t bytes_set, bytes_get, staged_bytes;
  uint64_t faults, reconnects;
  char member[384];     /* name and release of the member that it is or was attached to */
  char detached[512];   /* why it is not attached */
  char last_fault[512]; /* the latest failure that was answered as misses */
} pc_state_info;

/* Fills the caller's struct, whose size is set; texts that are too long are cut. */
int pc_state(pc_client* client, pc_state_info* info);

/* ---- names ---------------------------------------------------------------------------------- */

/* What must be equal for equal names to mean equal bytes: model, weights, dtype, layout, ranks. */
typedef struct {
  pc_key prefix; /* of all keys */
  uint64_t tag;  /* for pc_op and pc_clear: the pages of exactly this identity */
} pc_namespace;

/* The same in every process and release for the same bytes. */
int pc_namespace_make(const void* identity, size_t size, pc_namespace* space);
/* The key of a name of any length. */
int pc_key_make(const pc_key* prefix, const void* name, size_t size, pc_key* key);
/* The same for a name that is a digest of 32 bytes already, such as an engine's block hash. Its
 * bytes must be uniformly distributed: members are chosen by them. */
int pc_key_of_digest(const pc_key* prefix, const uint8_t digest[32], pc_key* key);

/* ---- memory --------------------------------------------------------------------------------- */

/* Shares bytes [fd_offset, fd_offset + length) of `fd`, mapped shared and writable here at `base`:
 * a memfd or a file of a tmpfs. The descriptor is duplicated. Replaces what was shared at these
 * addresses. Takes the memory that the file does not have yet up to the end of the range; a file
 * with holes behind it is refused. PC_EREFUSED where the member does not take the memory; without a
 * member it is offered to the next one. */
int pc_share_fd(pc_client* client, int fd, void* base, size_t length, uint64_t fd_offset);
/* Shares each shared mapping of the range whose descriptor this process still has open, found by
 * inode. `*shared` (may be NULL): bytes that the member knows now, or will when there is one. The
 * rest of the range goes through the staging ring, so PC_EREFUSED is no reason to stop: the member
 * does not take all that was found. Costs a walk of /proc/self/maps and /proc/self/fd. */
int pc_share_range(pc_client* client, const void* base, size_t length, size_t* shared);
/* The member forgets the shared memory within this range, of which no part may reach out of it. Ops
 * under way that name it end as they would have, or as misses: unmap it after their completions. */
int pc_unshare(pc_client* client, const void* base, size_t length);

/* ---- ops ------------------------------------------------------------------------------------ */

enum {
  PC_SET = 1,     /* pages become readable on every machine; ok also for those that were already */
  PC_GET = 2,     /* ok: the bytes are in place */
  PC_PRESENCE = 3 /* ok: the page can be read now */
};
enum {
  PC_UNCOUNTED = 1 /* GET, PRESENCE: not in the member's hit ratio; other ops count these pages */
};
enum { PC_MAX_PAGES = 65536, PC_MAX_IOVS = 1024 /* of a page */ };

typedef struct {
  uint32_t size; /* equal in all ops of one call: the distance between them */
  uint8_t kind, reserved;
  uint16_t flags;
  uint32_t pages;         /* 1 to PC_MAX_PAGES */
  uint32_t iovs_per_page; /* SET, GET: of every page; 0: iov_counts[page] */
  const pc_key* keys;     /* one for each page */
  const pc_iov* iovs;     /* SET, GET: those of page 0, then those of page 1, ... */
  const uint32_t* iov_counts;
  uint64_t tag;         /* SET: pc_clear drops pages by it */
  uint64_t user_data;   /* comes back in the completions */
  uint32_t page_tokens; /* GET, PRESENCE: of a page; 0: unknown. For hit ratio and guard */
  uint32_t deadline_us; /* PRESENCE: from pc_submit; then no page of it is ok. 0: none */
} pc_op;

typedef struct { /* of at most 64 pages: an op of more has several, in the order of its pages */
  uint64_t user_data;
  uint64_t ok; /* bit i: page first + i */
  uint32_t first;
  uint16_t count;
  uint16_t flags;
  int32_t result; /* PC_OK, or why no page of the op was tried: PC_EOLD, PC_ETIME, PC_ECANCELED */
  uint32_t reserved;
} pc_completion;

enum { PC_MORE = 1 /* further completions of this op follow */ };

enum { PC_MAX_WINDOW = 32, PC_MAX_DEPTH = 65536 };

typedef struct {
  uint32_t size;
  uint32_t window; /* requests at work at once, each with a thread and a connection; 0: 4 */
  uint32_t depth;  /* ops that were taken and not fully reaped; 0: 1024 */
  uint32_t reserved;
} pc_queue_args;

/* `args` may be NULL. PC_EREFUSED where the system gives no descriptor. */
int pc_queue_open(pc_client* client, const pc_queue_args* args, pc_queue** queue);
/* An eventfd that is readable while completions wait. pc_reap resets it: do not read or close it.
 */
int pc_queue_fd(pc_queue* queue);
/* Returns how many ops were taken, from the first one on. An op that is not taken ends the call: it
 * is the error if it is the first, PC_EINVAL, PC_EFULL or PC_ENOMEM. Ops run at once and may end in
 * any order. */
int64_t pc_submit(pc_queue* queue, const pc_op* ops, size_t count);
/* Returns how many completions were written. */
int64_t pc_reap(pc_queue* queue, pc_completion* completions, size_t max);
/* Until a completion waits; PC_ETIME after timeout_ms. */
int pc_wait(pc_queue* queue, uint32_t timeout_ms);
/* Ends the ops of this user_data that have not begun, with misses. Returns how many: none is no
 * error, those that have begun end as they would have. */
int64_t pc_cancel(pc_queue* queue, uint64_t user_data);
/* Lets the ops that were taken end, and drops their completions. NULL is allowed. */
void pc_queue_close(pc_queue* queue);

/* Drops all pages of this tag, on every machine. PC_EREFUSED: pc_error names the members that have
 * not answered; each drops the pages before it serves again. Takes up to twice the time-out. */
int pc_clear(pc_client* client, uint64_t tag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
