#include "node/read/tcp_reader.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "directory/lease.h"
#include "node/batch/node_groups.h"

namespace peercache {
namespace {

// Bytes of one exchange: far less than any network moves within a lease, far more than it moves
// in the round trip between two exchanges.
constexpr uint64_t kExchangeBytes = 32 << 20;
constexpr size_t kExchangePages = 4096;
// A part of less is not worth another thread and round trip.
constexpr uint64_t kLeastPart = 1 << 20;

// Scatters the pages of one answer into their destinations.
class ScatterSink : public PayloadSink {
 public:
  // `pages` are those that were asked for, in this order.
  ScatterSink(std::span<const RemotePage> all, std::span<const NodeGroups::Item> asked,
              const Destinations& to)
      : all_(all), asked_(asked), to_(to) {}

  Status Accept(FrameReader body, uint64_t payload_length,
                std::vector<iovec>* destinations) override {
    if (!DecodeReadOk(&body, &lengths_) || lengths_.size() != asked_.size())
      return Corrupt("malformed ReadOk");
    uint64_t expected = 0;
    for (size_t i = 0; i < asked_.size(); ++i) {
      if (lengths_[i] == 0) continue;
      const auto page = to_.Of(all_[asked_[i].index].page);
      if (lengths_[i] != TotalSize(page)) return Corrupt("a page of another length than asked for");
      for (const Bytes& segment : page)
        if (!segment.empty()) destinations->push_back({segment.data(), segment.size()});
      expected += lengths_[i];
    }
    if (expected != payload_length) return Corrupt("payload and page lengths disagree");
    return {};
  }
  bool Enter() override { return to_.permit == nullptr || to_.permit->Enter(); }
  void Leave() override {
    if (to_.permit != nullptr) to_.permit->Leave();
  }
  std::span<const uint32_t> lengths() const { return lengths_; }

 private:
  const std::span<const RemotePage> all_;
  const std::span<const NodeGroups::Item> asked_;
  const Destinations& to_;
  std::vector<uint32_t> lengths_;
};

}  // namespace

// One holder and what is still to be read from it.
struct TcpReader::Holder {
  PeerRef peer;
  std::span<const NodeGroups::Item> rest;
};

std::vector<size_t> TcpReader::Read(const ReadBatch& batch, std::vector<size_t> asked) {
  if (batch.to.unmapped) return asked;
  NodeGroups groups;
  for (const size_t i : asked) groups.Add(batch.pages[i].record.node, i);
  std::vector<Holder> holders;
  groups.ForEach([&](uint64_t node, std::span<const NodeGroups::Item> items) {
    if (PeerRef peer = peers_->Find(node); peer != nullptr)
      holders.push_back({std::move(peer), items});
  });
  auto parts = Parts(holders, batch);
  batch.crew->For(parts.size(), [&](size_t p) {
    while (!parts[p].empty()) {
      Round(parts[p], batch);
      std::erase_if(parts[p], [](const Holder& holder) { return holder.rest.empty(); });
    }
  });
  std::erase_if(asked, [&](size_t i) { return batch.outcomes[i] != ReadOutcome::kUnreachable; });
  return asked;
}

// Parts of about the same number of bytes, one for each thread that is free.
std::vector<std::vector<TcpReader::Holder>> TcpReader::Parts(std::span<const Holder> holders,
                                                             const ReadBatch& batch) {
  uint64_t total = 0;
  for (const Holder& holder : holders)
    for (const auto& item : holder.rest) total += batch.pages[item.index].record.length;
  const uint64_t most = total / kLeastPart;
  const uint64_t count = most < 2 ? 1 : std::min<uint64_t>(most, batch.crew->Hands());
  const uint64_t share = total / count + 1;
  std::vector<std::vector<Holder>> parts(1);
  uint64_t bytes = 0;  // of the last part
  for (const Holder& holder : holders) {
    size_t begin = 0;
    for (size_t i = 0; i < holder.rest.size(); ++i) {
      if (bytes >= share) {
        if (i > begin) parts.back().push_back({holder.peer, holder.rest.subspan(begin, i - begin)});
        parts.emplace_back();
        begin = i;
        bytes = 0;
      }
      bytes += batch.pages[holder.rest[i].index].record.length;
    }
    parts.back().push_back({holder.peer, holder.rest.subspan(begin)});
  }
  return parts;
}

void TcpReader::Round(std::span<Holder> holders, const ReadBatch& batch) {
  std::vector<std::span<const NodeGroups::Item>> asked;
  std::vector<std::unique_ptr<ScatterSink>> sinks;
  std::vector<UnderWay> reading;
  std::vector<uint64_t> queued;  // at each holder before
  std::vector<ReadItem> items;
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  for (Holder& holder : holders) {
    // Records of one holder can be of two of its lives, around a restart; one exchange is of one.
    const uint64_t incarnation = batch.pages[holder.rest.front().index].record.incarnation;
    items.clear();
    uint64_t bytes = 0;
    for (const auto& item : holder.rest) {
      const RemotePage& page = batch.pages[item.index];
      const Record& r = page.record;
      if (r.incarnation != incarnation || items.size() == kExchangePages ||
          (bytes > 0 && bytes + r.length > kExchangeBytes)) {
        break;
      }
      items.push_back({r.offset, r.generation, r.length, 0, page.key});
      bytes += r.length;
    }
    asked.push_back(holder.rest.first(items.size()));
    holder.rest = holder.rest.subspan(items.size());
    sinks.push_back(std::make_unique<ScatterSink>(batch.pages, asked.back(), batch.to));
    PeerCall& call = calls.Add(holder.peer, MessageType::kRead);
    call.sink = sinks.back().get();
    EncodeRead(incarnation, items, &call.request);
    queued.push_back(holder.peer->under_way());
    reading.push_back(holder.peer->Reading(bytes));
  }
  const TimePoint sent = Clock::now();  // model: Ask
  calls.Run(MessageType::kReadOk, {options_.stall, batch.deadline, batch.hurried});
  for (size_t c = 0; c < asked.size(); ++c) {
    const PeerCall& call = *calls.calls()[c];
    if (!call.status.ok()) {
      holders[c].rest = {};  // it will not answer the rest either
      continue;
    }
    const auto lengths = sinks[c]->lengths();
    if (!batch.background) {
      const auto bytes = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
      call.peer->cost(Tier::kMemory).Took(bytes, queued[c], call.finished - sent);
    }
    for (size_t i = 0; i < asked[c].size(); ++i) {
      const size_t index = asked[c][i].index;
      // From when the holder was asked: it has admitted the read, so the page was in service then.
      // model: read_in_time, time_last
      const Lease lease(options_.lease, batch.pages[index].record);
      batch.outcomes[index] = lengths[i] == 0                     ? ReadOutcome::kStale
                              : lease.Covers(sent, call.finished) ? ReadOutcome::kRead
                                                                  : ReadOutcome::kExpired;
    }
  }
}

}  // namespace peercache
