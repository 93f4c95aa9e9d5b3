// PoolKeys: the keys (rkeys) by which peers READ the pool, and how they end with the token.
//
// Who proved a token may have kept the keys that it was told. So a node makes others when it sees a
// token that is new to it, which is before anybody proves that one (node/peer/secret.h): who
// connects by it is told these. The former keys end when no token is accepted any more that was
// accepted while they were told. Both are good meanwhile, so no READ fails. The pool is pinned once
// but counts twice in the limit of locked memory, and in the device's translation entries.
//
// A pool that takes longer to register than `spread` is an exception: who connects by the new token
// before that is done is told the former keys. Its READs fail when those end. It reads over TCP
// until it has connected anew.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "node/peer/secret.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/rail.h"

namespace peercache {

class PoolKeys {
 public:
  // All outlive this. `pool`: the range's id. Without a token the keys stay as they are.
  PoolKeys(const rdma::Rails* rails, rdma::RegisteredMemory* registered, uint64_t pool,
           const Secret* secret);
  ~PoolKeys();
  PoolKeys(const PoolKeys&) = delete;
  PoolKeys& operator=(const PoolKeys&) = delete;

  // What its thread does again and again.
  void Follow(TimePoint now);
  // When the present keys were made: who was told keys before may have the former ones.
  TimePoint since() const { return since_; }

 private:
  void Run();

  const rdma::Rails* const rails_;
  rdma::RegisteredMemory* const registered_;
  const uint64_t pool_;
  const Secret* const secret_;
  std::mutex following_;
  std::set<uint64_t> tokens_;  // that were accepted when the present keys were made
  std::shared_ptr<const rdma::Registration> former_;
  std::set<uint64_t> former_tokens_;
  std::atomic<TimePoint> since_{TimePoint{}};
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache
