// Counters: what a node counts and times, as plain atomics that cost nothing to bump.
// metric_families.cc turns them into what /metrics shows; status shows some of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "node/count/latency.h"

namespace peercache {

struct Counter {
  std::atomic<uint64_t> value{0};
  void Add(uint64_t n) { value.fetch_add(n, std::memory_order_relaxed); }
  operator uint64_t() const { return value.load(std::memory_order_relaxed); }
};

struct PageCounter {
  Counter pages, tokens;  // tokens of those pages whose engine says how many a page has
  void Add(uint64_t n, uint64_t page_tokens) {
    pages.Add(n);
    tokens.Add(n * page_tokens);
  }
};

// Where a page came from that an engine got.
enum class PageSource : uint8_t {
  kNowhere,
  kLocal,
  kReplica,
  kShared,
  kTcp,
  kRdma,
  kMapped,
  kDisk
};
inline constexpr size_t kPageSources = 8;

struct Counters {
  // what engines look up and get: docs/hit-ratio.md
  PageCounter lookup_exists, lookup_get, found;
  std::array<PageCounter, kPageSources> delivered;  // by PageSource
  // engine side, in pages unless said
  Counter read_requests, read_disk_hits, read_local_hits, read_remote_hits, read_shared_hits,
      read_replica_hits;
  Counter miss_absent, miss_unreachable, miss_stale, miss_expired, miss_copy, miss_corrupt,
      miss_no_view, miss_behind, miss_given_up, miss_bypass, miss_slower;
  // asked of holders that had the page on disk: come in time, and not
  Counter fetched_from_disk, miss_disk_late;
  Counter verified, locations_recalled, read_elsewhere;
  Counter write_requests, write_duplicates, write_stored;
  Counter refused_full, refused_size, refused_copy, refused_unacknowledged, refused_no_view,
      refused_given_up, refused_bypass;
  Counter exists_requests, exists_pages, exists_pages_found;
  // found, and not promised: they are not worth bringing (node/read/worth.h)
  Counter slower_pages;
  Counter presence_requests, presence_pages, presence_pages_found;
  // bytes, by where the pages were found
  Counter bytes_local, bytes_remote, bytes_shared, bytes_replica, bytes_disk, bytes_written;
  Counter engine_bad_requests;
  Counter engine_refused_user, engine_refused_slow, engine_refused_crowded, engine_refused_limit,
      engine_refused_busy;
  Counter engine_calls_waited;
  // peer side
  Counter served_pages, served_bytes, served_absent, lookups, lookup_keys, grants;
  // reader side, in keys: of the shards asked, or of their memory; and what that did not tell
  Counter asked_for, looked_up;
  Counter look_torn, look_elsewhere, look_ungranted, look_unread;
  // pages of a node that leaves: there, and at the peers that take them over
  Counter drain_planned, drain_moved, drain_refused, drain_failed, drain_left;
  Counter drain_planned_bytes, drain_moved_bytes, drain_refused_bytes, drain_failed_bytes,
      drain_left_bytes;
  Counter taken, taken_bytes, not_taken_room, not_taken_failed;
  // directory upkeep
  Counter republished, withdrawn, withdraw_unacknowledged, repair_passes;
  Counter publish_messages, withdraw_messages, contact_messages;
  // clears of this node's engines, and those of them that some member has not heard of; times that
  // this node has caught up with what it had missed
  Counter clears, clears_unheard, clears_caught_up;
  // membership
  Counter heartbeats, heartbeats_answered, heartbeat_failures;
  // whole calls of engines, and the stages they went through: at most one observation per call
  LatencyHistogram op_set, op_get, op_exists, op_presence;
  LatencyHistogram set_reserve, set_copy, set_publish;
  LatencyHistogram get_copy, get_lookup, get_read, get_share;
  LatencyHistogram exists_lookup, presence_lookup;

  uint64_t looked_up_pages() const { return lookup_exists.pages + lookup_get.pages; }
  uint64_t delivered_pages() const {
    uint64_t sum = 0;
    for (const PageCounter& source : delivered) sum += source.pages;
    return sum;
  }
  uint64_t bytes_read() const {
    return bytes_local + bytes_remote + bytes_shared + bytes_replica + bytes_disk;
  }
};

}  // namespace peercache
