// Registration: a range of memory that all rails of a node may touch: pinned, and known to each
// device by a key. Large ranges are registered in chunks, since devices bound the size of a region.
//
// RegisteredMemory: the ranges that reads may land in, found by address.
//
//   auto pool = Registration::Make("pool", bytes, rails, Registration::For::kRemoteRead, nullptr);
//   memory.Add(*Registration::Make("engine", region->bytes(), rails, kLocalWrite, region));
//   const auto ranges = memory.ranges();             // one snapshot for a batch
//   const Registration* r = RegisteredMemory::Find(*ranges, segment);
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma/rail.h"

namespace peercache::rdma {

class Registration {
 public:
  enum class For : uint8_t {
    kLocalWrite,  // READs of this node land in it
    kRemoteRead,  // peers READ it, and so do READs of this node land in it
  };

  // Takes about a second for 10 GB and logs progress. `keeper`, if any, owns the memory and is
  // released after it is deregistered. Errors name rail, size, limit and remedy.
  static Result<std::shared_ptr<const Registration>> Make(const std::string& what,
                                                          std::span<std::byte> bytes,
                                                          const Rails& rails, For use,
                                                          std::shared_ptr<const void> keeper);

  std::span<std::byte> bytes() const { return bytes_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  size_t chunks() const { return chunks_; }
  size_t ChunkOf(const std::byte* at) const {
    return static_cast<size_t>(at - bytes_.data()) / chunk_bytes_;
  }
  // Bytes from `at` to the end of its chunk.
  size_t LeftInChunk(const std::byte* at) const {
    return chunk_bytes_ - static_cast<size_t>(at - bytes_.data()) % chunk_bytes_;
  }
  // The rail's device is on the NUMA node where most of the memory is, as far as that is known.
  bool IsNear(size_t rail) const { return far_.empty() || !far_[rail]; }
  uint32_t lkey(size_t rail, size_t chunk) const { return mrs_[rail * chunks_ + chunk]->lkey; }
  uint32_t rkey(size_t rail, size_t chunk) const { return mrs_[rail * chunks_ + chunk]->rkey; }

 private:
  friend class RegistrationTesting;
  Registration() = default;
  void FindNear(const Rails& rails);
  std::shared_ptr<const void> keeper_;  // destroyed after mrs_
  std::span<std::byte> bytes_;
  uint64_t chunk_bytes_ = 1;
  size_t chunks_ = 0;
  std::vector<MrHandle> mrs_;  // [rail][chunk]
  std::vector<bool> far_;      // of each rail; empty: none is near
};

class RegisteredMemory {
 public:
  using Ranges = std::vector<std::shared_ptr<const Registration>>;  // by address; disjoint

  void Add(std::shared_ptr<const Registration> range);
  // Forgets the range; it is deregistered when the last snapshot that has it is gone.
  void Remove(const Registration* range);
  std::shared_ptr<const Ranges> ranges() const;
  // The range that holds all of `bytes`, or null.
  static const Registration* Find(const Ranges& ranges, std::span<const std::byte> bytes);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Ranges> ranges_ = std::make_shared<Ranges>();
};

// What one chunk may be: at most what the devices register at once, whole huge pages, and at most
// kMaxPoolChunks of them. 0: the memory is too large for these devices.
uint64_t ChunkBytes(uint64_t bytes, uint64_t max_mr_size);

// Why registering failed and what to do, from errno, the limit on locked memory (RLIM_INFINITY:
// none) and who this process is.
Status ExplainRegistration(const std::string& what, const std::string& rail, uint64_t bytes,
                           int error, uint64_t memlock, bool root);

}  // namespace peercache::rdma
