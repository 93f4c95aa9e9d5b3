#include "node/pages.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/checksum.h"

namespace peercache {
namespace {

// Slowest rate at which a peer may deliver pages; with it every call is bounded by its size.
constexpr uint64_t kMinBytesPerMilli = 64 << 10;

// Below this, waking a helper takes longer than the copy.
constexpr uint64_t kWorthHelp = 1 << 20;

// A page of a set on its way into the pool.
struct Incoming {
  size_t page = 0;
  std::span<const ConstBytes> from;
  Reservation reservation;  // empty when the page is here already
  PagePin pin;
  uint64_t checksum = 0;
  bool copied = false;
};

}  // namespace

template <typename Work>
void Pages::ForEach(size_t count, uint64_t bytes, const Work& work) {
  if (bytes >= kWorthHelp) {
    crew_.For(count, work);
  } else {
    for (size_t i = 0; i < count; ++i) work(i);
  }
}

Pages::Pages(PagesOptions options, Pool* pool, Peers* peers, const Views* views,
             Publisher* publisher, Locator* locator, Replicas* replicas, Room* room, Fabric* fabric,
             Counters* counters)
    : options_(options),
      pool_(pool),
      peers_(peers),
      views_(views),
      publisher_(publisher),
      locator_(locator),
      replicas_(replicas),
      room_(room),
      counters_(counters),
      crew_(options.copy_threads - 1),
      reader_({options.lease, options.stall, options.checksums}, peers, fabric, counters, &crew_) {}

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
  std::vector<Incoming> incoming;
  uint64_t copying = 0;
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
      incoming.push_back({i, page, {}, std::move(pin)});
      continue;
    }
    auto reservation = room_->Reserve(length, room_deadline);
    if (!reservation.ok()) {
      const bool full = reservation.status().code() == Code::kResourceExhausted;
      (full ? counters_->refused_full : counters_->refused_size).Add(1);
      continue;
    }
    incoming.push_back({i, page, std::move(*reservation), {}});
    copying += length;
  }
  const TimePoint reserved = Clock::now();
  counters_->set_reserve.Observe(reserved - start);
  ForEach(incoming.size(), copying, [&](size_t p) {
    Incoming& in = incoming[p];
    if (in.pin) return;
    in.copied = GuardedGather(in.reservation.payload(), in.from);
    if (in.copied && ChecksumWanted(options_.checksums, keys[in.page]))
      in.checksum = Checksum(in.reservation.payload());
  });
  if (copying > 0) counters_->set_copy.Observe(Clock::now() - reserved);
  std::vector<PinnedPage> pages;
  std::vector<size_t> which;
  uint64_t bytes = 0;
  for (Incoming& in : incoming) {
    if (!in.pin) {
      if (!in.copied) {
        counters_->refused_copy.Add(1);
        continue;
      }
      bool duplicate = false;
      const size_t length = in.reservation.payload().size();
      in.pin =
          pool_->Commit(std::move(in.reservation), keys[in.page], tag, in.checksum, &duplicate);
      if (!in.pin) {
        counters_->refused_full.Add(1);
        continue;
      }
      bytes += length;
    }
    const Record record = publisher_->RecordOf(in.pin);
    pages.push_back({keys[in.page], record, std::move(in.pin)});
    which.push_back(in.page);
  }
  std::vector<uint8_t> published(pages.size());
  const TimePoint publishing = Clock::now();
  publisher_->Publish(pages, published, publishing + options_.stall);
  if (!pages.empty()) counters_->set_publish.Observe(Clock::now() - publishing);
  for (size_t p = 0; p < pages.size(); ++p) {
    ok[which[p]] = published[p];
    (published[p] ? counters_->write_stored : counters_->refused_unacknowledged).Add(1);
  }
  counters_->bytes_written.Add(bytes);
}

TimePoint Pages::DeadlineFor(uint64_t bytes, TimePoint start) const {
  return start + options_.peer_timeout +
         milliseconds(static_cast<int64_t>(bytes / kMinBytesPerMilli));
}

void Pages::Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
                std::span<uint8_t> ok) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->read_requests.Add(keys.size());
  const TimePoint start = Clock::now();
  const Destinations to{segments, per_page};
  StageTime copy(&counters_->get_copy);
  auto wanted = GetLocal(keys, to, ok, start, &copy);
  if (wanted.empty()) return;
  const uint64_t epoch = replicas_->epoch();
  const size_t replicated = GetReplicas(keys, to, ok, &wanted, &copy);

  Flights::Call call(to, epoch);
  std::vector<size_t> led;
  std::vector<Flights::Followed> followed;
  flights_.Join(keys, wanted, &call, &led, &followed);
  replicas_->Observe(replicated + followed.size(), led.size());
  if (!led.empty()) Fetch(keys, led, to, ok, start);
  flights_.Land(&call, ok);
  if (!followed.empty()) {
    const TimePoint landed = Clock::now();
    for (const Flights::Followed& f : followed) {
      ok[f.page] = flights_.Copy(f, to, DeadlineFor(to.SizeOf(f.page) * followed.size(), start));
      (ok[f.page] ? counters_->read_shared_hits : counters_->miss_absent).Add(1);
      if (ok[f.page]) counters_->bytes_shared.Add(to.SizeOf(f.page));
    }
    counters_->get_share.Observe(Clock::now() - landed);
  }
  // Kept before others cease to follow, so that nobody finds neither the flight nor the replica.
  replicas_->Keep(keys, led, ok, to, epoch);
  flights_.Leave(keys, led, &call);
}

bool Pages::CopyOut(const PagePin& pin, std::span<const Bytes> to, Counter* hits, Counter* bytes) {
  if (!GuardedScatter(to, pin.payload())) {
    counters_->miss_copy.Add(1);
    return false;
  }
  const SlotHeader& header = pin.header();
  if (header.checksum != 0 && ChecksumWanted(options_.checksums, header.key)) {
    counters_->verified.Add(1);
    if (Checksum(pin.payload()) != header.checksum) {
      counters_->miss_corrupt.Add(1);
      return false;
    }
  }
  hits->Add(1);
  bytes->Add(pin.payload().size());
  return true;
}

std::vector<size_t> Pages::GetLocal(std::span<const Key> keys, const Destinations& to,
                                    std::span<uint8_t> ok, TimePoint start, StageTime* stage) {
  std::vector<size_t> here, others;
  std::vector<PagePin> pins(keys.size());
  pool_->FindMany(keys, pins);
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    (pins[i] ? here : others).push_back(i);
    if (pins[i]) bytes += pins[i].payload().size();
  }
  ForEach(here.size(), bytes, [&](size_t h) {
    const size_t page = here[h];
    ok[page] =
        CopyOut(pins[page], to.Of(page), &counters_->read_local_hits, &counters_->bytes_local);
    pins[page].Release();
  });
  if (!here.empty()) stage->Add(Clock::now() - start);
  return others;
}

size_t Pages::GetReplicas(std::span<const Key> keys, const Destinations& to, std::span<uint8_t> ok,
                          std::vector<size_t>* wanted, StageTime* stage) {
  std::vector<PagePin> pins(wanted->size());
  const TimePoint start = Clock::now();
  replicas_->Find(keys, *wanted, pins);
  size_t kept = 0;
  for (size_t i = 0; i < pins.size(); ++i) {
    const size_t page = (*wanted)[i];
    if (pins[i] &&
        CopyOut(pins[i], to.Of(page), &counters_->read_replica_hits, &counters_->bytes_replica)) {
      ok[page] = 1;
      pins[i].Release();
    } else {
      (*wanted)[kept++] = page;
    }
  }
  const size_t found = wanted->size() - kept;
  if (found > 0) stage->Add(Clock::now() - start);
  wanted->resize(kept);
  return found;
}

void Pages::Fetch(std::span<const Key> keys, std::span<const size_t> pages, const Destinations& to,
                  std::span<uint8_t> ok, TimePoint start) {
  const auto view = views_->Wait(start + options_.peer_timeout);
  if (view == nullptr) {
    counters_->miss_no_view.Add(pages.size());
    return;
  }
  uint64_t bytes = 0;
  for (const size_t page : pages) bytes += to.SizeOf(page);
  const TimePoint deadline = DeadlineFor(bytes, start);
  StageTime read(&counters_->get_read);

  std::vector<Key> asked;
  for (const size_t page : pages) asked.push_back(keys[page]);
  std::vector<Record> records(pages.size());
  std::vector<TimePoint> until(pages.size());
  std::vector<size_t> unknown(pages.begin(), pages.end());
  if (locator_->Recall(asked, records, until, start) > 0) {
    // Read what an earlier lookup has found; ask afresh for what has moved on since.
    std::vector<size_t> recalled;
    std::vector<Record> where;
    std::vector<TimePoint> where_until;
    unknown.clear();
    for (size_t i = 0; i < pages.size(); ++i) {
      if (records[i].node == 0) {
        unknown.push_back(pages[i]);
      } else {
        recalled.push_back(pages[i]);
        where.push_back(records[i]);
        where_until.push_back(until[i]);
      }
    }
    const auto moved = Read(keys, recalled, where, where_until, to, ok, deadline, &read);
    for (const size_t page : moved) locator_->Forget(keys[page]);
    unknown.insert(unknown.end(), moved.begin(), moved.end());
    if (unknown.empty()) return;
    asked.clear();
    for (const size_t page : unknown) asked.push_back(keys[page]);
    records.resize(unknown.size());
  }
  const TimePoint lookup = Clock::now();
  locator_->Lookup(*view, asked, records, std::min(deadline, lookup + options_.stall));
  counters_->get_lookup.Observe(Clock::now() - lookup);
  until.clear();
  // The holder lets a slot rest by its own lease, which may be another than ours.
  for (const Record& record : records)
    until.push_back(lookup + std::min<Duration>(options_.lease, milliseconds(record.lease_ms)));
  const auto moved = Read(keys, unknown, records, until, to, ok, deadline, &read);
  for (const size_t page : moved) locator_->Forget(keys[page]);
  counters_->miss_stale.Add(moved.size());
}

std::vector<size_t> Pages::Read(std::span<const Key> keys, std::span<const size_t> pages,
                                std::span<const Record> records, std::span<const TimePoint> until,
                                const Destinations& to, std::span<uint8_t> ok, TimePoint deadline,
                                StageTime* stage) {
  const TimePoint start = Clock::now();
  std::vector<RemotePage> remote;
  std::vector<size_t> moved;
  for (size_t i = 0; i < pages.size(); ++i) {
    const Record& record = records[i];
    // A page of our own that was not in the pool has just been evicted.
    if (record.node == 0 || record.node == peers_->self()) {
      counters_->miss_absent.Add(1);
    } else if (start >= until[i] || record.length != to.SizeOf(pages[i])) {
      // What was remembered may end between the look at it and here.
      moved.push_back(pages[i]);
    } else {
      remote.push_back({keys[pages[i]], record, pages[i], until[i]});
    }
  }
  std::vector<ReadOutcome> outcomes(remote.size());
  if (!remote.empty()) {
    reader_.Read(remote, to, outcomes, deadline);
    stage->Add(Clock::now() - start);
  }
  uint64_t corrupt = 0;
  for (size_t i = 0; i < remote.size(); ++i) {
    switch (outcomes[i]) {
      case ReadOutcome::kRead:
        ok[remote[i].page] = 1;
        counters_->read_remote_hits.Add(1);
        counters_->bytes_remote.Add(remote[i].record.length);
        break;
      case ReadOutcome::kStale: moved.push_back(remote[i].page); break;
      case ReadOutcome::kExpired: counters_->miss_expired.Add(1); break;
      case ReadOutcome::kUnreachable: counters_->miss_unreachable.Add(1); break;
      case ReadOutcome::kCorrupt: ++corrupt; break;
    }
  }
  if (corrupt > 0) {
    counters_->miss_corrupt.Add(corrupt);
    spdlog::error("{} pages arrived with wrong bytes (checksum): memory or network is at fault",
                  corrupt);
  }
  return moved;
}

size_t Pages::Exists(std::span<const Key> keys) {
  counters_->exists_requests.Add(1);
  counters_->exists_pages.Add(keys.size());
  const TimePoint start = Clock::now();
  std::vector<uint8_t> there(keys.size(), 0);
  std::vector<Key> asked;
  std::vector<size_t> which;
  for (size_t i = 0; i < keys.size(); ++i) {
    there[i] = pool_->Contains(keys[i]) || replicas_->Contains(keys[i]);
    if (there[i]) continue;
    asked.push_back(keys[i]);
    which.push_back(i);
  }
  if (!asked.empty()) {
    if (const auto view = views_->Wait(start + options_.peer_timeout)) {
      std::vector<Record> records(asked.size());
      const TimePoint lookup = Clock::now();
      locator_->Lookup(*view, asked, records, start + options_.stall);
      counters_->exists_lookup.Observe(Clock::now() - lookup);
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
