#include "node/pages.h"

#include <algorithm>
#include <unordered_map>

#include "base/checksum.h"

namespace peercache {
namespace {

// Slowest rate at which a peer may deliver pages; with it every call is bounded by its size.
constexpr uint64_t kMinBytesPerMilli = 64 << 10;

using Groups = std::unordered_map<uint64_t, std::vector<size_t>>;

// Scatters one peer's pages into the segments of the pages that were asked for.
class ScatterSink : public PayloadSink {
 public:
  ScatterSink(std::span<const size_t> which, std::span<const Bytes> segments, size_t per_page)
      : which_(which), segments_(segments), per_page_(per_page) {}

  Status Accept(FrameReader body, uint64_t payload_length,
                std::vector<iovec>* destinations) override {
    if (!DecodeReadOk(&body, &lengths_) || lengths_.size() != which_.size()) {
      return Corrupt("malformed ReadOk");
    }
    uint64_t expected = 0;
    for (size_t i = 0; i < which_.size(); ++i) {
      if (lengths_[i] == 0) continue;
      const auto page = segments_.subspan(which_[i] * per_page_, per_page_);
      if (lengths_[i] != TotalSize(page)) return Corrupt("a page of another length than asked for");
      for (const Bytes& segment : page) {
        if (!segment.empty()) destinations->push_back({segment.data(), segment.size()});
      }
      expected += lengths_[i];
    }
    if (expected != payload_length) return Corrupt("payload and page lengths disagree");
    return {};
  }
  std::span<const uint32_t> lengths() const { return lengths_; }

 private:
  const std::span<const size_t> which_;
  const std::span<const Bytes> segments_;
  const size_t per_page_;
  std::vector<uint32_t> lengths_;
};

}  // namespace

Pages::Pages(PagesOptions options, Pool* pool, Shard* shard, Peers* peers, const Views* views,
             Publisher* publisher, Room* room, Counters* counters)
    : options_(options),
      pool_(pool),
      shard_(shard),
      peers_(peers),
      views_(views),
      publisher_(publisher),
      room_(room),
      counters_(counters) {}

Result<Reservation> Pages::ReserveWaiting(size_t length, TimePoint deadline) {
  auto reservation = pool_->Reserve(length);
  while (!reservation.ok() && reservation.status().code() == Code::kResourceExhausted) {
    if (!room_->WaitForRoom(length, deadline)) break;
    reservation = pool_->Reserve(length);
  }
  return reservation;
}

void Pages::Set(std::span<const Key> keys, std::span<const ConstBytes> segments, size_t per_page,
                uint64_t tag, std::span<uint8_t> ok) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->write_requests.Add(keys.size());
  const TimePoint start = Clock::now();
  if (views_->Wait(start + options_.peer_timeout) == nullptr) {
    counters_->refused_no_view.Add(keys.size());
    return;
  }
  // Room is made by eviction, whose slots rest for a lease: worth waiting for, but not long.
  const TimePoint room_deadline = start + options_.peer_timeout / 2;
  std::vector<PinnedPage> pages;
  std::vector<size_t> which;
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto page = segments.subspan(i * per_page, per_page);
    const size_t length = TotalSize(page);
    PagePin pin = pool_->Find(keys[i]);
    if (pin && pin.payload().size() != length) {
      counters_->refused_size.Add(1);  // equal keys name equal bytes; this caller breaks that
      continue;
    }
    if (pin) {
      counters_->write_duplicates.Add(1);
    } else {
      auto reservation = ReserveWaiting(length, room_deadline);
      if (!reservation.ok()) {
        const bool full = reservation.status().code() == Code::kResourceExhausted;
        (full ? counters_->refused_full : counters_->refused_size).Add(1);
        continue;
      }
      if (!GuardedGather(reservation->payload(), page)) {
        counters_->refused_copy.Add(1);
        continue;
      }
      const uint64_t checksum = Checksum(reservation->payload());
      bool duplicate = false;
      pin = pool_->Commit(std::move(*reservation), keys[i], tag, checksum, &duplicate);
      if (!pin) {
        counters_->refused_full.Add(1);
        continue;
      }
      bytes += length;
    }
    const Record record = publisher_->RecordOf(pin);
    pages.push_back({keys[i], record, std::move(pin)});
    which.push_back(i);
  }
  std::vector<uint8_t> published(pages.size());
  publisher_->Publish(pages, published, Clock::now() + options_.stall);
  for (size_t p = 0; p < pages.size(); ++p) {
    ok[which[p]] = published[p];
    (published[p] ? counters_->write_stored : counters_->refused_unacknowledged).Add(1);
  }
  counters_->bytes_written.Add(bytes);
}

void Pages::LookupIn(const Ring& ring, std::span<const Key> keys, std::span<const size_t> which,
                     std::span<Record> records, TimePoint deadline) {
  Groups groups;
  for (size_t i : which) {
    if (const uint64_t owner = ring.OwnerOf(keys[i]); owner != 0) groups[owner].push_back(i);
  }
  const TimePoint now = Clock::now();
  const auto exclude = peers_->Unhealthy(now);
  std::vector<Key> asked;
  std::vector<Record> found;
  std::vector<const std::vector<size_t>*> sent;
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  for (const auto& [owner, group] : groups) {
    asked.clear();
    for (size_t i : group) asked.push_back(keys[i]);
    if (owner == peers_->self()) {
      found.assign(group.size(), Record{});
      shard_->Lookup(asked, peers_->self(), exclude, found, now);
      for (size_t i = 0; i < group.size(); ++i) records[group[i]] = found[i];
      continue;
    }
    Peer* peer = peers_->Find(owner);
    if (peer == nullptr) continue;
    EncodeLookup(peers_->self(), exclude, asked, &calls.Add(peer, MessageType::kLookup).request);
    sent.push_back(&group);
  }
  if (calls.empty()) return;
  calls.Run(MessageType::kLookupOk, {options_.stall, deadline});
  for (size_t c = 0; c < sent.size(); ++c) {
    const PeerCall& call = *calls.calls()[c];
    FrameReader reader = call.answer;
    if (!call.status.ok() || !DecodeRecords(&reader, &found) || found.size() != sent[c]->size()) {
      continue;
    }
    for (size_t i = 0; i < found.size(); ++i) records[(*sent[c])[i]] = found[i];
  }
}

void Pages::Lookup(const View& view, std::span<const Key> keys, std::span<Record> records,
                   TimePoint deadline) {
  std::vector<size_t> missing(keys.size());
  for (size_t i = 0; i < missing.size(); ++i) missing[i] = i;
  const Ring* asked[3] = {};
  int rounds = 0;
  for (const Ring* ring : {&view.current, &view.next, &view.previous}) {
    // Only keys whose owner in this ring has not been asked in an earlier round.
    std::vector<size_t> which;
    for (size_t i : missing) {
      const uint64_t owner = ring->OwnerOf(keys[i]);
      const bool repeated = std::any_of(asked, asked + rounds, [&](const Ring* before) {
        return before->OwnerOf(keys[i]) == owner;
      });
      if (owner != 0 && !repeated) which.push_back(i);
    }
    asked[rounds++] = ring;
    if (!which.empty()) LookupIn(*ring, keys, which, records, deadline);
    std::erase_if(missing, [&](size_t i) { return records[i].node != 0; });
    if (missing.empty() || Clock::now() >= deadline) return;
  }
}

void Pages::Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
                std::span<uint8_t> ok) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->read_requests.Add(keys.size());
  const TimePoint start = Clock::now();
  std::vector<size_t> remote;
  {
    std::vector<PagePin> pins(keys.size());
    pool_->FindMany(keys, pins);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!pins[i]) {
        remote.push_back(i);
        continue;
      }
      ok[i] = GuardedScatter(segments.subspan(i * per_page, per_page), pins[i].payload());
      (ok[i] ? counters_->read_local_hits : counters_->miss_copy).Add(1);
      if (ok[i]) counters_->bytes_read.Add(pins[i].payload().size());
    }
  }
  if (remote.empty()) return;
  const auto view = views_->Wait(start + options_.peer_timeout);
  if (view == nullptr) {
    counters_->miss_no_view.Add(remote.size());
    return;
  }
  std::vector<Key> asked;
  for (size_t i : remote) asked.push_back(keys[i]);
  std::vector<Record> records(remote.size());
  Lookup(*view, asked, records, start + options_.stall);

  // The lease runs from before the lookup was sent. A page of our own that was not in the pool has
  // just been evicted.
  std::vector<Key> wanted;
  std::vector<Record> found;
  std::vector<size_t> which;  // of the caller's pages
  uint64_t bytes = 0;
  for (size_t i = 0; i < remote.size(); ++i) {
    const Record& record = records[i];
    if (record.node == 0 || record.node == peers_->self()) {
      counters_->miss_absent.Add(1);
    } else if (Clock::now() - start >= options_.lease) {
      counters_->miss_expired.Add(1);
    } else if (record.length != TotalSize(segments.subspan(remote[i] * per_page, per_page))) {
      counters_->miss_stale.Add(1);
    } else {
      wanted.push_back(asked[i]);
      found.push_back(record);
      which.push_back(remote[i]);
      bytes += record.length;
    }
  }
  const TimePoint deadline =
      start + options_.peer_timeout + milliseconds(static_cast<int64_t>(bytes / kMinBytesPerMilli));
  ReadRemote(wanted, found, which, segments, per_page, ok, deadline);
}

void Pages::ReadRemote(std::span<const Key> keys, std::span<const Record> records,
                       std::span<const size_t> which, std::span<const Bytes> segments,
                       size_t per_page, std::span<uint8_t> ok, TimePoint deadline) {
  Groups groups;  // holder -> indices into `keys`
  for (size_t i = 0; i < keys.size(); ++i) groups[records[i].node].push_back(i);
  std::vector<std::unique_ptr<ScatterSink>> sinks;
  std::vector<std::vector<size_t>> pages;  // per call, indices of the caller's pages
  pages.reserve(groups.size());            // sinks hold spans of the elements
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  std::vector<ReadItem> items;
  for (const auto& [holder, group] : groups) {
    Peer* peer = peers_->Find(holder);
    if (peer == nullptr) {
      counters_->miss_unreachable.Add(group.size());
      continue;
    }
    items.clear();
    auto& of_call = pages.emplace_back();
    for (size_t i : group) {
      items.push_back({records[i].offset, records[i].generation, records[i].length, 0, keys[i]});
      of_call.push_back(which[i]);
    }
    sinks.push_back(std::make_unique<ScatterSink>(of_call, segments, per_page));
    PeerCall& call = calls.Add(peer, MessageType::kRead);
    call.sink = sinks.back().get();
    EncodeRead(records[group.front()].incarnation, items, &call.request);
  }
  if (calls.empty()) return;
  calls.Run(MessageType::kReadOk, {options_.stall, deadline});
  for (size_t c = 0; c < pages.size(); ++c) {
    if (!calls.calls()[c]->status.ok()) {
      counters_->miss_unreachable.Add(pages[c].size());
      continue;
    }
    const auto lengths = sinks[c]->lengths();
    for (size_t i = 0; i < pages[c].size(); ++i) {
      ok[pages[c][i]] = lengths[i] != 0;
      (lengths[i] != 0 ? counters_->read_remote_hits : counters_->miss_stale).Add(1);
      counters_->bytes_read.Add(lengths[i]);
    }
  }
}

size_t Pages::Exists(std::span<const Key> keys) {
  counters_->exists_requests.Add(1);
  counters_->exists_pages.Add(keys.size());
  const TimePoint start = Clock::now();
  std::vector<uint8_t> there(keys.size(), 0);
  std::vector<Key> asked;
  std::vector<size_t> which;
  for (size_t i = 0; i < keys.size(); ++i) {
    there[i] = pool_->Contains(keys[i]);
    if (there[i]) continue;
    asked.push_back(keys[i]);
    which.push_back(i);
  }
  if (!asked.empty()) {
    if (const auto view = views_->Wait(start + options_.peer_timeout)) {
      std::vector<Record> records(asked.size());
      Lookup(*view, asked, records, start + options_.stall);
      for (size_t i = 0; i < asked.size(); ++i) {
        there[which[i]] = records[i].node != 0 && records[i].node != peers_->self();
      }
    }
  }
  const auto end = std::find(there.begin(), there.end(), uint8_t{0});
  const auto hits = static_cast<size_t>(end - there.begin());
  counters_->exists_pages_found.Add(hits);
  return hits;
}

}  // namespace peercache
