// Client: what an engine links. It speaks to the engine's own node over a Unix socket and hands
// over offsets into shared memory; the node moves the bytes.
//
//   auto client = Client::Connect({.socket = "/run/peercache/default.sock", .engine = "rank0"});
//   client->RegisterRegion(fd, base, length);           // host pool that is a memfd: zero copy
//   client->Set(keys, segments, 2, tag, ok);            // two segments a page (K, V)
//   client->Get(keys, segments, 2, tag, ok);            // bytes land in the engine's pages
//
// Segments outside every registered region go through a staging ring (one extra copy), never fail
// for that reason. All calls block, are bounded in time, never throw, and are safe from many
// threads at once: each in-flight call owns one connection of a small pool.
//
// A node that is not there, not ready, restarting or gone is a miss: calls answer false / 0 at
// once. A thread of the client attaches when the node comes (attachment.h), and shares the
// registered regions in every new session. When the node does not answer (stopped, frozen), the
// calls under way end after `timeout` and the next ones answer misses at once, but for one now and
// then that checks whether the node answers again. Only a get whose node was stopped in the middle
// of a copy into the engine's page waits until that copy is over or the node is gone. Otherwise the
// node could write the page while the engine uses it for something else.
//
// Costs of a call: one message to the node and one back, 20 to 40 us where the node's thread has to
// be woken; then one copy of each byte by the node. A segment outside every region costs a second
// copy of its bytes, by the caller, and a call that needs more of the staging ring than is free
// waits for the calls that have it. Exists and Presence move 32 bytes a key and touch no page.
// Worse: many calls of one page each, which pay for a message a page (async_client.h joins them).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/status.h"
#include "client/segment.h"
#include "wire/frame.h"

namespace peercache {

struct ClientOptions {
  std::string socket;                       // the node's Unix socket
  std::string engine = "engine";            // shown in the node's status
  milliseconds timeout{1500};               // longest a call may stall on the node; see above
  size_t staging_bytes = size_t{64} << 20;  // of the staging ring
};

// How the node brings pages into device memory: by READs of its RDMA devices, by copies of its own.
struct DmaBufWays {
  bool rdma = false, copies = false;
  std::string missing;  // why one of them is missing; empty when none is
};

struct ClientStats {
  uint64_t set_pages = 0, set_failed = 0, get_pages = 0, get_hits = 0, exists_pages = 0,
           exists_hits = 0, presence_pages = 0, presence_hits = 0, bytes_set = 0, bytes_get = 0,
           staged_bytes = 0, faults = 0, reconnects = 0;
  std::string last_fault;
  bool attached = false;
  std::string node;      // name and release of the node that it is or was attached to
  std::string detached;  // why it is not attached
};

class Client {
 public:
  // Needs no node. Fails, with a message that names the socket and the remedy, only when waiting
  // would not help: the path can be no socket, or who listens there is no node or refuses this
  // engine. Waits for the answer of a node that takes the connection, for 6 s at most.
  static Result<std::unique_ptr<Client>> Connect(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool attached() const;
  // Whether the node that it is attached to knows Presence.
  bool knows_presence() const;
  // Ok while attached, and otherwise why not.
  Status state() const;

  // Shares [fd_offset, fd_offset + length) of `fd`, mapped here at `base`, with the node: at once,
  // or when there is one. The fd is duplicated; the caller keeps its own. Survives reconnects.
  // Replaces regions that overlap it. Fails when the node does not take the memory.
  Status RegisterRegion(int fd, void* base, size_t length, uint64_t fd_offset = 0);

  // The node forgets the regions that lie within these addresses: pages there go through the
  // staging ring from now on. Calls under way that name them end as they would have, or as misses;
  // until they have ended, their pages stay in use. kInvalidArgument, and nothing changes, where a
  // region lies there in part. Device memory stays registered: nothing can stage its pages.
  Status UnregisterRegion(uint64_t address, size_t length);

  // Shares bytes [offset, offset + length) of the dma-buf `fd`, such as memory of a GPU
  // (cuMemGetHandleForAddressRange); segments name it by `address`, where this client neither reads
  // nor writes. The fd is duplicated. Survives reconnects. Fails, naming what is missing, when the
  // node has no way there or is not attached: pages must go to host memory then. Without `copies`,
  // get() brings what the node's rails can read, the rest is a miss, and set() stores nothing from
  // there. On devices whose GPU_DIRECT_RDMA_WRITES_ORDERING is below "owner", call
  // cuFlushGPUDirectRDMAWrites after get() and before a kernel reads the pages.
  Result<DmaBufWays> RegisterDmaBuf(int fd, uint64_t address, size_t length, uint64_t offset = 0);

  // The same of device memory at `address` of this process, where the node runs, too (embedded),
  // and the kernel has a peer-memory driver (nvidia-peermem).
  Result<DmaBufWays> RegisterDevicePointer(uint64_t address, size_t length);

  // One page per key; page i is made of segments [i * segments_per_page, (i + 1) *
  // segments_per_page). ok[i] = 1 when the page is stored and visible to every reader.
  void Set(std::span<const Key> keys, std::span<const Segment> segments, size_t segments_per_page,
           uint64_t tag, std::span<uint8_t> ok);
  // ok[i] = 1 when the page's bytes are in place. A page with ok[i] = 0 has undefined content.
  void Get(std::span<const Key> keys, std::span<const Segment> segments, size_t segments_per_page,
           std::span<uint8_t> ok, Counting counting = {});
  // Length of the leading run of keys that can be read now.
  size_t Exists(std::span<const Key> keys, Counting counting = {});
  // there[i] = 1 when keys[i] can be read now. One question to the node for each 65,536 keys, each
  // of which costs it what it costs Exists. Not counted in the hit ratio, unless asked for: for
  // keys that are one prompt's, in its order, which no Exists asks for. False, and nothing was
  // asked, when the node's release does not know the question: ask Exists instead.
  bool Presence(std::span<const Key> keys, std::span<uint8_t> there,
                Counting counting = {.counted = false});
  // How many tokens' KV the engine computes in a second; 0: not known. The node learns it with the
  // next call. It waits for pages of calls that name their tokens (Counting) no longer than
  // computing them takes, and answers a miss where it knows that they take longer. Costs each
  // connection a message when it changes.
  void SetPrefill(uint32_t tokens_per_second);
  // Drops every page set under `tag` on every node. Otherwise the status names the members that do
  // not know of it: each drops the pages before it serves again, and no other member reads from it
  // until then. Takes up to twice the time-out when a member does not answer.
  Status Clear(uint64_t tag);

  ClientStats stats() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
