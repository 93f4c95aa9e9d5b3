// RdmaWorld: a holder and a reader with rails over the fake libibverbs (transport/rdma/fake), for
// targets in which the holder lies. READs are copies within the process; what the holder has not
// registered cannot be read.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/memory.h"
#include "fuzz.h"
#include "node/rails/header_memory.h"
#include "pool/slot_header.h"
#include "transport/rdma/acceptor.h"
#include "transport/rdma/fake/fake_verbs.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/read_channel.h"
#include "wire/fabric.h"

namespace peercache::fuzz {

class RdmaWorld {
 public:
  static constexpr size_t kRails = 2;
  static constexpr std::array<uint32_t, 6> kLengths = {1, 64, 4000, 20'000, 200'000, 3'000'000};
  static constexpr size_t kPages = kLengths.size();

  // Made once; its rails live until the process ends.
  static RdmaWorld& Get();
  // As it is at the start of an input.
  void Restore();

  // What the holder truly answers to this request. Its queue pairs live as long as `queues`.
  ConnectOk RightAnswer(const ConnectRequest& request, rdma::Acceptor::Queues* queues);
  // Tells the answer as an input has it: fields {which, 8 bytes}.
  static void Lie(Input edits, ConnectOk* answer);
  // As it comes over the wire: false where it is refused there.
  static bool Travels(ConnectOk* answer);

  // A batch of all pages, which are where their records say, but for `lies`: {page, which, value}.
  // Ends when it is done; checks what was written, and what counts as read.
  struct Outcome {
    size_t read = 0, stale = 0, failed = 0;
  };
  // `pool`: where the holder says that its pool is; 0: who knows.
  Outcome Read(rdma::ReadChannel* channel, uint64_t pool, Input lies);

  std::span<std::byte> pool() const { return pool_->bytes(); }
  const rdma::Rails& rails() const { return *rails_; }
  const rdma::RegisteredMemory& registered() const { return reader_; }
  HeaderMemory* header_memory() { return &header_memory_; }
  std::span<SlotHeader> headers() const;
  rdma::FakeVerbs& fake() { return rdma::FakeVerbs::Get(); }

 private:
  RdmaWorld();
  std::span<std::byte> Place(size_t page) const;
  void CheckGaps() const;

  const std::unique_ptr<rdma::Rails> rails_;
  const std::shared_ptr<MappedRegion> pool_, memory_;
  std::vector<std::byte> right_;  // what the pool has at the start
  std::vector<rdma::PageRead> pages_;
  rdma::RegisteredMemory holder_, reader_;
  HeaderMemory header_memory_{rails_.get(), &reader_};
  std::unique_ptr<rdma::Acceptor> acceptor_;
};

}  // namespace peercache::fuzz
