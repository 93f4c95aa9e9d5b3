// Registration: a range of memory that all rails of a node may touch: pinned, and known to each
// device by a key. Large ranges are registered in chunks, since devices bound the size of a region.
// A rail whose device has failed does not know it any more; one whose device was opened anew does
// by other keys, in another Registration of the same range.
//
// RegisteredMemory: the ranges that reads may land in and peers may read, found by address.
//
//   memory.Register("pool", bytes, rails, Registration::For::kRemoteRead, nullptr);
//   memory.Register("engine", region->bytes(), rails, kLocalWrite, region);
//   const auto ranges = memory.ranges();             // one snapshot for a batch
//   const Registration* r = RegisteredMemory::Find(*ranges, segment);
//   ...
//   memory.Renew(rails, 1);                          // rail 1 has lost its device, or got it back
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
#include "transport/rdma/memlock.h"
#include "transport/rdma/rail.h"

namespace peercache::rdma {

class Registration {
 public:
  enum class For : uint8_t {
    kLocalWrite,  // READs of this node land in it
    kRemoteRead,  // peers READ it, and so do READs of this node land in it
  };

  // Memory of a device, as the descriptor and the offset there of a dma-buf; the range is then only
  // addresses, by which its parts are named. `fd` lives as long as the keeper.
  struct DmaBuf {
    int fd = -1;  // -1: there is none
    uint64_t offset = 0;
    bool device = false;  // of a device even without one: no pages to bring in, on no NUMA node
  };

  // With the rails `wanted`, a bit each. Takes about a second for 10 GB and logs progress.
  // `keeper`, if any, owns the memory and is released after it is deregistered. Does without rails
  // whose device has failed. Errors name rail, size, limit and remedy.
  static Result<std::shared_ptr<const Registration>> Make(const std::string& what,
                                                          std::span<std::byte> bytes,
                                                          const Rails& rails, For use,
                                                          std::shared_ptr<const void> keeper,
                                                          DmaBuf dma_buf, uint32_t wanted = ~0u);

  // The same range, as far as `rail` goes with the keys of its present device: none, if it has
  // none.
  Result<std::shared_ptr<const Registration>> Anew(const Rails& rails, size_t rail) const;

  // This, with the keys that `other`, of the same range, has for `rail`.
  std::shared_ptr<const Registration> With(const Registration& other, size_t rail) const;

  // What Anew and With make of a range is the same one; another of the same bytes is not.
  uint64_t id() const { return id_; }
  const std::string& what() const { return what_; }
  For use() const { return use_; }
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
  // The device that the keys below are for; null: the rail does not know the range.
  const DeviceContext* KnownTo(size_t rail) const {
    return keys_[rail] ? keys_[rail]->device.get() : nullptr;
  }
  bool known() const;  // to any rail
  uint32_t lkey(size_t rail, size_t chunk) const { return keys_[rail]->mrs[chunk]->lkey; }
  uint32_t rkey(size_t rail, size_t chunk) const { return keys_[rail]->mrs[chunk]->rkey; }

 private:
  friend class RegistrationTesting;
  // Of one rail. Deregistering takes long, and the last to know the range may be a call that reads:
  // Rail::Dispose does it.
  struct Keys {
    std::shared_ptr<const DeviceContext> device;
    std::shared_ptr<const void> keeper;
    std::vector<MrHandle> mrs;  // of each chunk
  };
  Registration() = default;
  // Of the rails that are `wanted`, as far as their devices are there.
  Status AddKeys(const Rails& rails, std::span<const size_t> wanted);
  void FindNear(const Rails& rails);
  // One chunk with one device; null, with errno.
  MrHandle Register(const Rail& rail, const DeviceContext& device, size_t chunk) const;
  std::span<std::byte> Chunk(size_t chunk) const;
  uint64_t id_ = 0;
  std::string what_;
  For use_ = For::kLocalWrite;
  std::shared_ptr<const void> keeper_;
  std::span<std::byte> bytes_;
  DmaBuf dma_buf_;
  uint64_t chunk_bytes_ = 1;
  size_t chunks_ = 0;
  std::vector<std::shared_ptr<const Keys>> keys_;  // of each rail; null: it does not know the range
  std::vector<bool> far_;                          // of each rail; empty: none is near
};

class RegisteredMemory {
 public:
  // By address. Disjoint, but for memory of devices that was freed and came back at the same
  // address before its old range was removed: the one that came last is behind the others, and
  // found.
  using Ranges = std::vector<std::shared_ptr<const Registration>>;

  // As Registration::Make; afterwards its rails know the range as they do all others. A large range
  // of an engine is known to one rail first, and pages go over that one while it is registered with
  // the others, those near to it first. Returns the range's id.
  Result<uint64_t> Register(const std::string& what, std::span<std::byte> bytes, const Rails& rails,
                            Registration::For use, std::shared_ptr<const void> keeper,
                            Registration::DmaBuf dma_buf = {});
  void Add(std::shared_ptr<const Registration> range);
  // Forgets the range; it is deregistered when the last snapshot that has it is gone.
  void Remove(uint64_t id);
  // In place of `old`, as far as `rail` goes: others may have replaced it for theirs. False when
  // the range is not here any more, or the rail knows it by other keys than `old` says.
  bool Replace(const Registration* old, size_t rail, std::shared_ptr<const Registration> range);
  // The rail has another device now, or none: it knows all ranges by that one afterwards. A range
  // of an engine that it refuses is left out, and said in the log; one for peers is the error.
  Status Renew(const Rails& rails, size_t rail);
  // Other keys for the range, on all rails that know it, one after the other. The present ones are
  // good for as long as `former` lives. It is set also when a rail refuses, which keeps its own.
  Status Rekey(const Rails& rails, uint64_t id, std::shared_ptr<const Registration>* former);

  std::shared_ptr<const Ranges> ranges() const;
  // Whether any rail knows the range.
  bool Known(uint64_t id) const;
  // The range that holds all of `bytes`, or null.
  static const Registration* Find(const Ranges& ranges, std::span<const std::byte> bytes);

 private:
  // Null: it is not here any more.
  std::shared_ptr<const Registration> Of(uint64_t id) const;
  // Of this range.
  Status Renew(const Rails& rails, size_t rail, uint64_t id);
  // The same of all rails, by several threads, those near to it first.
  void RenewAll(const Rails& rails, const Registration& range);
  mutable std::mutex mutex_;
  std::shared_ptr<const Ranges> ranges_ = std::make_shared<Ranges>();
};

// What one chunk may be: at most what the devices register at once, whole huge pages, and at most
// kMaxPoolChunks of them. 0: the memory is too large for these devices.
uint64_t ChunkBytes(uint64_t bytes, uint64_t max_mr_size);

// Why registering with `rails` failed, with this one of them, and what to do: from errno, and what
// this process might lock when it began.
Status ExplainRegistration(const std::string& what, const std::string& rail, uint64_t bytes,
                           size_t rails, int error, const Memlock& memlock);
// The same of a dma-buf. `known`: libibverbs has the call.
Status ExplainDmaBuf(const std::string& what, const std::string& rail, int error, bool known);

}  // namespace peercache::rdma
