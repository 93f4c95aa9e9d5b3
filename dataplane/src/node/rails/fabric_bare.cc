// Fabric::ReadBare: small READs of what peers have beside their slots. They land in the memory that
// is otherwise for slots' headers.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "node/batch/node_groups.h"
#include "node/rails/fabric.h"
#include "transport/rdma/run_reads.h"

namespace peercache {
namespace {

constexpr size_t kHeadersOfOne = Fabric::kBareBytes / sizeof(SlotHeader);
constexpr size_t kAtOnce = HeaderMemory::kHeaders / kHeadersOfOne;

struct Batch {
  std::unique_ptr<Link> link;
  std::vector<size_t> which;  // indices of reads
  HeaderMemory::Block block{};
  std::vector<Bytes> places;
  std::vector<rdma::PageRead> reads;
  std::vector<rdma::PageState> states;
};

}  // namespace

void Fabric::ReadBare(std::span<BareRead> reads, TimePoint deadline) {
  const TimePoint start = Clock::now();
  std::vector<Batch> batches;
  NodeGroups groups;
  for (size_t i = 0; i < reads.size(); ++i) groups.Add(reads[i].node, i);
  groups.ForEach([&](uint64_t node, std::span<const NodeGroups::Item> items) {
    const PeerRef peer = peers_->Find(node);
    auto link = peer == nullptr ? nullptr : links_->Take(peer, start);
    if (!link) return;
    Batch batch;
    for (const auto& item : items) {
      const BareRead& read = reads[item.index];
      if (read.incarnation == link->incarnation && read.to.size() <= kBareBytes)
        batch.which.push_back(item.index);
    }
    batch.link = std::move(link);
    batches.push_back(std::move(batch));
  });
  const TimePoint limit = std::min(deadline, start + stall_);
  for (size_t first = 0;; first += kAtOnce) {
    const TimePoint now = Clock::now();
    if (now >= limit) break;
    std::vector<rdma::RunningRead> running;
    for (Batch& batch : batches) {
      batch.states.clear();
      if (batch.which.size() <= first) continue;
      auto block = headers_->Take();
      if (!block.ok()) {
        spdlog::error("{}", block.status().ToString());
        continue;
      }
      batch.block = *block;
      const size_t count = std::min(batch.which.size() - first, kAtOnce);
      const Bytes scratch = std::as_writable_bytes(batch.block.headers);
      batch.places.clear();
      batch.reads.clear();
      for (size_t i = 0; i < count; ++i)
        batch.places.push_back(
            scratch.subspan(i * kBareBytes, reads[batch.which[first + i]].to.size()));
      for (size_t i = 0; i < count; ++i) {
        batch.reads.push_back({.key = {},
                               .offset = reads[batch.which[first + i]].offset,
                               .length = static_cast<uint32_t>(batch.places[i].size()),
                               .to = std::span(batch.places).subspan(i, 1),
                               .bare = true});
      }
      batch.states.assign(count, rdma::PageState::kPending);
      running.push_back({batch.link->channel.get(), batch.link->control->fd()});
    }
    if (running.empty()) break;
    const auto ranges = registered_.ranges();
    for (Batch& batch : batches) {
      if (batch.states.empty()) continue;
      batch.link->channel->Begin(batch.reads, *ranges, {}, batch.states, queue_stall_, now);
    }
    // A queue that brings nothing is lost by then, and one that does is kept.
    rdma::RunReads(running, {limit + queue_stall_, spin_, limit});
    for (Batch& batch : batches) {
      if (batch.states.empty()) continue;
      for (size_t i = 0; i < batch.states.size(); ++i) {
        if (batch.states[i] != rdma::PageState::kRead) continue;
        BareRead& read = reads[batch.which[first + i]];
        std::memcpy(read.to.data(), batch.places[i].data(), read.to.size());
        read.done = true;
      }
      headers_->Return(batch.block);
    }
  }
  for (Batch& batch : batches) links_->Return(std::move(batch.link));
}

}  // namespace peercache
