// HeaderMemory: where the headers of slots land that are read by RDMA: blocks of registered memory,
// one for each batch that is under way, used again and again.
//
// Thread-safe. Grows by what is in use at once, which is bounded by the calls of engines at work.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/status.h"
#include "pool/slot_header.h"
#include "transport/rdma/memory.h"

namespace peercache {

class HeaderMemory {
 public:
  static constexpr size_t kHeaders = 1024;        // of one block
  static constexpr size_t kPages = kHeaders / 2;  // read at once: each has its header twice
  static constexpr size_t kBlocksAtOnce = 16;
  static constexpr size_t kBytesAtOnce = kBlocksAtOnce * kHeaders * sizeof(SlotHeader);

  struct Block {
    std::span<SlotHeader> headers;
  };

  // Adds its memory to `registered`; both outlive this.
  HeaderMemory(const rdma::Rails* rails, rdma::RegisteredMemory* registered)
      : rails_(rails), registered_(registered) {}
  ~HeaderMemory();

  Result<Block> Take();
  void Return(Block block);

 private:
  const rdma::Rails* const rails_;
  rdma::RegisteredMemory* const registered_;
  std::mutex mutex_;
  std::vector<Block> free_;
  std::vector<uint64_t> ranges_;  // of each region: its id
};

}  // namespace peercache
