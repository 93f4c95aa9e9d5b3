// Counters: what a node counts and times, as plain atomics that cost nothing to bump.
// metric_families.cc turns them into what /metrics shows; status shows some of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "node/latency.h"

namespace peercache {

struct Counter {
  std::atomic<uint64_t> value{0};
  void Add(uint64_t n) { value.fetch_add(n, std::memory_order_relaxed); }
  operator uint64_t() const { return value.load(std::memory_order_relaxed); }
};

struct Counters {
  // engine side, in pages unless said
  Counter read_requests, read_local_hits, read_remote_hits, read_shared_hits, read_replica_hits;
  Counter miss_absent, miss_unreachable, miss_stale, miss_expired, miss_copy, miss_corrupt,
      miss_no_view, miss_given_up;
  Counter verified, locations_recalled, read_elsewhere;
  Counter write_requests, write_duplicates, write_stored;
  Counter refused_full, refused_size, refused_copy, refused_unacknowledged, refused_no_view,
      refused_given_up;
  Counter exists_requests, exists_pages, exists_pages_found;
  // bytes, by where the pages were found
  Counter bytes_local, bytes_remote, bytes_shared, bytes_replica, bytes_written;
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
  // membership
  Counter heartbeats, heartbeats_answered, heartbeat_failures;
  // whole calls of engines, and the stages they went through: at most one observation per call
  LatencyHistogram op_set, op_get, op_exists;
  LatencyHistogram set_reserve, set_copy, set_publish;
  LatencyHistogram get_copy, get_lookup, get_read, get_share;
  LatencyHistogram exists_lookup;

  uint64_t bytes_read() const { return bytes_local + bytes_remote + bytes_shared + bytes_replica; }
};

}  // namespace peercache
