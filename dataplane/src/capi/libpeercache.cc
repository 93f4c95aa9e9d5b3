// The functions of libpeercache.h: checks of arguments around Client and Queue.
#include "peercache/libpeercache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "capi/check_op.h"
#include "capi/error.h"
#include "capi/queue.h"
#include "capi/shared_ranges.h"
#include "capi/sized.h"
#include "client/client.h"
#include "version.h"

using namespace peercache;        // NOLINT: the functions below are outside of it
using namespace peercache::capi;  // NOLINT

struct pc_client {
  std::shared_ptr<Client> client;
};
struct pc_queue {
  std::unique_ptr<Queue> queue;
};

namespace {

int Null(const char* name) { return Fail(PC_EINVAL, fmt::format("{}: NULL", name)); }

Result<ClientOptions> OptionsOf(const pc_open_args& args) {
  ClientOptions options;
  const char* socket = args.socket != nullptr ? args.socket : getenv("PEERCACHE_SOCKET");
  if (socket == nullptr || *socket == '\0') {
    return InvalidArgument(
        "socket: NULL or empty, and PEERCACHE_SOCKET is not set: give the path of the member's "
        "socket, such as /run/peercache/default.sock");
  }
  options.socket = socket;
  if (args.engine != nullptr) options.engine = args.engine;
  if (options.engine.empty() || options.engine.size() > PC_MAX_ENGINE ||
      !std::ranges::all_of(options.engine, [](char c) { return c > ' ' && c < 0x7f; })) {
    return InvalidArgument(
        fmt::format("engine: {} bytes: give 1 to {} of printable ASCII without blanks",
                    options.engine.size(), +PC_MAX_ENGINE));
  }
  if (args.timeout_ms > PC_MAX_TIMEOUT_MS) {
    return InvalidArgument(fmt::format("timeout_ms: {} is more than PC_MAX_TIMEOUT_MS ({})",
                                       args.timeout_ms, +PC_MAX_TIMEOUT_MS));
  }
  if (args.timeout_ms != 0) options.timeout = milliseconds(args.timeout_ms);
  if (args.staging_bytes > SIZE_MAX / 2) {
    return InvalidArgument(
        fmt::format("staging_bytes: {} is more than any memory", args.staging_bytes));
  }
  if (args.staging_bytes != 0) options.staging_bytes = args.staging_bytes;
  return options;
}

// Whether [base, base + length) is a range of addresses.
int CheckRange(const void* base, size_t length) {
  if (base == nullptr) return Null("base");
  if (length == 0 || reinterpret_cast<uint64_t>(base) + length < length) {
    return Fail(PC_EINVAL, fmt::format("length: {} bytes at {} are no memory", length, base));
  }
  return PC_OK;
}

template <size_t size>
void CopyText(const std::string& text, char (&to)[size]) {
  const size_t taken = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), taken);
  to[taken] = '\0';
}

// Digests of two purposes are never equal.
Sha256::Digest DigestOf(std::string_view purpose, const void* bytes, size_t size) {
  return Sha256()
      .Add("libpeercache 1 ")
      .Add(purpose)
      .Add(std::string_view("\0", 1))
      .Add(std::span(static_cast<const std::byte*>(bytes), size))
      .Finish();
}

void Xor(const pc_key& prefix, const uint8_t* digest, pc_key* key) {
  for (size_t i = 0; i < sizeof(key->bytes); ++i) key->bytes[i] = prefix.bytes[i] ^ digest[i];
}

}  // namespace

const char* pc_version() { return kVersion; }

// ---- client -------------------------------------------------------------------------------------

int pc_open(const pc_open_args* args, pc_client** client) {
  return Guarded([&] {
    if (args == nullptr) return Null("args");
    if (client == nullptr) return Null("client");
    pc_open_args taken;
    if (Status s = TakeSized(args, "pc_open_args", &taken); !s.ok()) return Fail(s);
    auto options = OptionsOf(taken);
    if (!options.ok()) return Fail(options.status());
    auto connected = Client::Connect(std::move(*options));
    if (!connected.ok()) return Fail(PC_EREFUSED, connected.status().message());
    *client = new pc_client{std::move(*connected)};
    return int{PC_OK};
  });
}

void pc_close(pc_client* client) { delete client; }

uint64_t pc_can(pc_client* client) {
  if (client == nullptr) return 0;
  return client->client->knows_presence() ? uint64_t{PC_CAN_PRESENCE} : 0;
}

int pc_set_prefill(pc_client* client, uint32_t tokens_per_second) {
  if (client == nullptr) return Null("client");
  client->client->SetPrefill(tokens_per_second);
  return PC_OK;
}

int pc_state(pc_client* client, pc_state_info* info) {
  return Guarded([&] {
    if (client == nullptr) return Null("client");
    if (info == nullptr) return Null("info");
    const uint32_t size = info->size;
    if (Status s = CheckSize<pc_state_info>(size, "pc_state_info"); !s.ok()) return Fail(s);
    const ClientStats stats = client->client->stats();
    pc_state_info found{};
    found.size = size;
    found.attached = stats.attached ? 1 : 0;
    found.set_pages = stats.set_pages;
    found.set_failed = stats.set_failed;
    found.get_pages = stats.get_pages;
    found.get_hits = stats.get_hits;
    found.presence_pages = stats.presence_pages;
    found.presence_hits = stats.presence_hits;
    found.bytes_set = stats.bytes_set;
    found.bytes_get = stats.bytes_get;
    found.staged_bytes = stats.staged_bytes;
    found.faults = stats.faults;
    found.reconnects = stats.reconnects;
    CopyText(stats.node, found.member);
    CopyText(stats.detached, found.detached);
    CopyText(stats.last_fault, found.last_fault);
    std::memset(info, 0, size);
    std::memcpy(info, &found, std::min<size_t>(size, sizeof(found)));
    return int{PC_OK};
  });
}

int pc_clear(pc_client* client, uint64_t tag) {
  return Guarded([&] {
    if (client == nullptr) return Null("client");
    const Status cleared = client->client->Clear(tag);
    return cleared.ok() ? int{PC_OK} : Fail(PC_EREFUSED, cleared.message());
  });
}

// ---- names --------------------------------------------------------------------------------------

int pc_namespace_make(const void* identity, size_t size, pc_namespace* space) {
  return Guarded([&] {
    if (identity == nullptr && size > 0) return Null("identity");
    if (space == nullptr) return Null("space");
    const auto prefix = DigestOf("prefix", identity, size);
    const auto tag = DigestOf("tag", identity, size);
    std::memcpy(space->prefix.bytes, prefix.data(), sizeof(space->prefix.bytes));
    std::memcpy(&space->tag, tag.data(), sizeof(space->tag));
    return int{PC_OK};
  });
}

int pc_key_make(const pc_key* prefix, const void* name, size_t size, pc_key* key) {
  return Guarded([&] {
    if (prefix == nullptr) return Null("prefix");
    if (name == nullptr && size > 0) return Null("name");
    if (key == nullptr) return Null("key");
    Xor(*prefix, DigestOf("name", name, size).data(), key);
    return int{PC_OK};
  });
}

int pc_key_of_digest(const pc_key* prefix, const uint8_t digest[32], pc_key* key) {
  return Guarded([&] {
    if (prefix == nullptr) return Null("prefix");
    if (digest == nullptr) return Null("digest");
    if (key == nullptr) return Null("key");
    Xor(*prefix, digest, key);
    return int{PC_OK};
  });
}

// ---- memory -------------------------------------------------------------------------------------

int pc_share_fd(pc_client* client, int fd, void* base, size_t length, uint64_t fd_offset) {
  return Guarded([&] {
    if (client == nullptr) return Null("client");
    if (fd < 0) return Fail(PC_EINVAL, fmt::format("fd: {} is not a descriptor", fd));
    if (const int range = CheckRange(base, length); range != PC_OK) return range;
    if (fd_offset + length < length) {
      return Fail(PC_EINVAL,
                  fmt::format("fd_offset: {} and {} bytes are beyond any file", fd_offset, length));
    }
    const Status shared = client->client->RegisterRegion(fd, base, length, fd_offset);
    return shared.ok() ? int{PC_OK} : Fail(PC_EREFUSED, shared.message());
  });
}

int pc_share_range(pc_client* client, const void* base, size_t length, size_t* shared) {
  return Guarded([&] {
    if (shared != nullptr) *shared = 0;
    if (client == nullptr) return Null("client");
    if (const int range = CheckRange(base, length); range != PC_OK) return range;
    Status refused;
    for (const SharedRange& found : SharedRanges(reinterpret_cast<uint64_t>(base), length)) {
      Status s = client->client->RegisterRegion(found.fd.get(), reinterpret_cast<void*>(found.base),
                                                found.length, found.fd_offset);
      if (!s.ok()) {
        refused = std::move(s);
      } else if (shared != nullptr) {
        *shared += found.length;
      }
    }
    return refused.ok() ? int{PC_OK} : Fail(PC_EREFUSED, refused.message());
  });
}

int pc_unshare(pc_client* client, const void* base, size_t length) {
  return Guarded([&] {
    if (client == nullptr) return Null("client");
    if (const int range = CheckRange(base, length); range != PC_OK) return range;
    const Status s = client->client->UnregisterRegion(reinterpret_cast<uint64_t>(base), length);
    return s.ok() ? int{PC_OK} : Fail(s);
  });
}

// ---- ops ----------------------------------------------------------------------------------------

int pc_queue_open(pc_client* client, const pc_queue_args* args, pc_queue** queue) {
  return Guarded([&] {
    if (client == nullptr) return Null("client");
    if (queue == nullptr) return Null("queue");
    pc_queue_args taken{};
    if (args != nullptr) {
      if (Status s = TakeSized(args, "pc_queue_args", &taken); !s.ok()) return Fail(s);
    }
    if (taken.window > PC_MAX_WINDOW) {
      return Fail(PC_EINVAL, fmt::format("window: {} is more than PC_MAX_WINDOW ({})", taken.window,
                                         +PC_MAX_WINDOW));
    }
    if (taken.depth > PC_MAX_DEPTH) {
      return Fail(PC_EINVAL, fmt::format("depth: {} is more than PC_MAX_DEPTH ({})", taken.depth,
                                         +PC_MAX_DEPTH));
    }
    if (taken.reserved != 0) return Fail(PC_EINVAL, "reserved: must be 0");
    QueueOptions options;
    if (taken.window != 0) options.window = taken.window;
    if (taken.depth != 0) options.depth = taken.depth;
    auto opened = Queue::Open(client->client, options);
    if (!opened.ok()) return Fail(PC_EREFUSED, opened.status().message());
    *queue = new pc_queue{std::move(*opened)};
    return int{PC_OK};
  });
}

int pc_queue_fd(pc_queue* queue) {
  if (queue == nullptr) return Fail(PC_EINVAL, "queue: NULL");
  return queue->queue->fd();
}

int64_t pc_submit(pc_queue* queue, const pc_op* ops, size_t count) {
  size_t taken = 0;
  const int64_t failed = Guarded([&]() -> int64_t {
    if (queue == nullptr) return Null("queue");
    if (ops == nullptr && count > 0) return Null("ops");
    for (const auto* at = reinterpret_cast<const std::byte*>(ops); taken < count; ++taken) {
      pc_op op;
      Status s = TakeSized(at, "pc_op", &op);
      if (s.ok() && op.size != ops->size) {
        s = InvalidArgument(
            fmt::format("size: {}, but the first op of this call has {}", op.size, ops->size));
      }
      if (s.ok()) s = CheckOp(op);
      if (!s.ok()) return Fail(PC_EINVAL, fmt::format("ops[{}].{}", taken, s.message()));
      if (s = queue->queue->Submit(op); !s.ok()) return Fail(s);
      at += op.size;
    }
    return 0;
  });
  return taken > 0 ? static_cast<int64_t>(taken) : failed;
}

int64_t pc_reap(pc_queue* queue, pc_completion* completions, size_t max) {
  return Guarded([&]() -> int64_t {
    if (queue == nullptr) return Null("queue");
    if (completions == nullptr && max > 0) return Null("completions");
    return static_cast<int64_t>(queue->queue->Reap({completions, max}));
  });
}

int pc_wait(pc_queue* queue, uint32_t timeout_ms) {
  return Guarded([&] {
    if (queue == nullptr) return Null("queue");
    if (queue->queue->Wait(milliseconds(timeout_ms))) return int{PC_OK};
    return Fail(PC_ETIME, fmt::format("no completion within {} ms", timeout_ms));
  });
}

int64_t pc_cancel(pc_queue* queue, uint64_t user_data) {
  return Guarded([&]() -> int64_t {
    if (queue == nullptr) return Null("queue");
    return static_cast<int64_t>(queue->queue->Cancel(user_data));
  });
}

void pc_queue_close(pc_queue* queue) { delete queue; }
