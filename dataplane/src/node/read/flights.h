// Flights: single flight across all engines of a node. While one call brings a page, other calls
// that want it wait for it and copy it from the first one's destination, instead of fetching it
// once more. The same key twice in one call is fetched once, too.
//
//   const auto call = std::make_shared<Flights::Call>(destinations, epoch);
//   flights.Join(keys, wanted, call.get(), &led, &followed);     // who brings what
//   ... bring the pages of `led`, setting ok[page] ...
//   flights.Land(call.get(), ok);                                // followers may copy now
//   for (const auto& f : followed) ok[f.page] = flights.Copy(f, destinations, deadline);
//   flights.Leave(keys, led, call.get(), deadline);  // before the destinations are given back
//
// Nobody waits for another before its own pages have landed, so there is no cycle of waiting. Each
// call waits until its own deadline at most: a follower until then for the leader's pages, a leader
// until then for followers to copy; those that have not begun to by then miss.
//
// Costs: Join and Leave take one lock for a call, and its leader's for each page that is followed;
// a few probes a page, with that lock held. A followed page costs a copy instead of a read. Worse:
// followers of a slow leader wait until their own deadline, and then miss.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/seeded_hash.h"
#include "node/batch/destinations.h"

namespace peercache {

class Flights {
 public:
  class Call : public std::enable_shared_from_this<Call> {
   public:
    // Calls of different epochs do not share: what was on its way before a clear is not given to
    // those who ask after it.
    Call(const Destinations& to, uint64_t epoch) : to_(to), epoch_(epoch) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class Flights;
    const Destinations to_;
    const uint64_t epoch_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool landed_ = false, left_ = false;
    std::span<const uint8_t> ok_;
    size_t followers_ = 0;  // calls' pages that are waiting or copying
    size_t copying_ = 0;    // of these: the leader cannot give its pages back
  };
  // A page of this call that another call (or this one, under another index) brings.
  struct Followed {
    std::shared_ptr<Call> leader;  // which may have left
    size_t leader_page = 0;
    size_t page = 0;
  };

  Flights() : buckets_(kBuckets) {}

  // Divides `wanted` (indices of keys and destinations) into pages this call leads and follows.
  void Join(std::span<const Key> keys, std::span<const size_t> wanted, Call* call,
            std::vector<size_t>* led, std::vector<Followed>* followed);
  // ok must live until Leave has returned.
  void Land(Call* call, std::span<const uint8_t> ok);
  // Waits until the page has landed and copies it. False when it was not found, came too late, has
  // another size, or the leader has left.
  bool Copy(const Followed& followed, const Destinations& to, TimePoint deadline);
  // Waits for the followers until `deadline`, and for those that are copying then.
  void Leave(std::span<const Key> keys, std::span<const size_t> led, Call* call,
             TimePoint deadline);

 private:
  struct Bucket {
    Call* call = nullptr;  // null: free
    size_t page = 0;
    Key key;
  };
  // Pages in flight at once; beyond half of it, and beside one of another epoch, calls fetch for
  // themselves.
  static constexpr size_t kBuckets = 64 << 10;

  Bucket* FindBucket(const Key& key);
  void Erase(const Key& key, const Call* call);

  const SeededHash hash_;
  std::mutex mutex_;
  std::vector<Bucket> buckets_;  // open addressing, linear probing
  size_t used_ = 0;
};

}  // namespace peercache
