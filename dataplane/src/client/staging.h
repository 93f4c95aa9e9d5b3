// Staging: shared memory for pages whose own memory the node cannot map (a pool without a
// descriptor, a plain tensor). A call borrows one lane, copies through it chunk by chunk and gives
// it back; when all lanes are out, it waits for one.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memory.h"
#include "base/status.h"

namespace peercache {

class Staging {
 public:
  struct Lane {
    MappedRegion memory;
    uint32_t region = 0;  // its id at the node
  };
  // Shares `memory` with the node under a new region id.
  using Share = std::function<Result<uint32_t>(const MappedRegion& memory)>;
  using Unshare = std::function<void(uint32_t region)>;

  static constexpr size_t kLanes = 4;

  Staging(size_t total_bytes, Share share, Unshare unshare);

  class Loan {
   public:
    Loan(Staging* staging, std::unique_ptr<Lane> lane)
        : staging_(staging), lane_(std::move(lane)) {}
    Loan(Loan&&) = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan();
    Lane& lane() { return *lane_; }
    // The node may still write there: the lane must not be used again.
    void Discard();

   private:
    Staging* staging_;
    std::unique_ptr<Lane> lane_;
  };
  // A lane of at least `bytes` (one page) and usually total / kLanes.
  Result<Loan> Borrow(size_t bytes);

 private:
  Result<std::unique_ptr<Lane>> Make(size_t bytes);
  void Return(std::unique_ptr<Lane> lane);

  const size_t lane_bytes_;
  const Share share_;
  const Unshare unshare_;
  std::mutex mutex_;
  std::condition_variable returned_;
  size_t out_ = 0;
  std::vector<std::unique_ptr<Lane>> idle_;
};

}  // namespace peercache
