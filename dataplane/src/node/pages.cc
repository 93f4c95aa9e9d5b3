#include "node/pages.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "base/checksum.h"

namespace peercache {
namespace {

// Slowest rate at which a peer may deliver pages; with it every call is bounded by its size.
constexpr uint64_t kMinBytesPerMilli = 64 << 10;

// Below this, waking a helper takes longer than the copy.
constexpr uint64_t kWorthHelp = 1 << 20;

constexpr uint8_t From(PageSource source) { return static_cast<uint8_t>(source); }
PageSource Here(const PagePin& pin) {
  return pin.replica() ? PageSource::kReplica : PageSource::kLocal;
}

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
             Clears* clears, Counters* counters)
    : options_(options),
      pool_(pool),
      views_(views),
      publisher_(publisher),
      locator_(locator),
      replicas_(replicas),
      room_(room),
      clears_(clears),
      counters_(counters),
      crew_(options.copy_threads - 1),
      reader_({options.lease, options.stall, options.checksums}, peers, fabric, counters, &crew_) {}

void Pages::Set(std::span<const Key> keys, std::span<const ConstBytes> segments, size_t per_page,
                uint64_t tag, std::span<uint8_t> ok, const Permit* permit) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->write_requests.Add(keys.size());
  const TimePoint start = Clock::now();
  if (views_->Wait(start + options_.peer_timeout) == nullptr) {
    counters_->refused_no_view.Add(keys.size());
    return;
  }
  // Room is made by eviction, whose slots rest for a lease: worth waiting for, but not long.
  const TimePoint room_deadline = start + options_.peer_timeout / 2;
  const auto from = [&](size_t page) { return segments.subspan(page * per_page, per_page); };
  std::vector<PagePin> pins(keys.size());       // of pages that are here
  std::vector<Reservation> slots(keys.size());  // of those on their way
  std::vector<size_t> lengths(keys.size()), incoming;
  pool_->FindMany(keys, pins);
  for (size_t i = 0; i < keys.size(); ++i) lengths[i] = pins[i] ? 0 : TotalSize(from(i));
  room_->ReserveFree(lengths, slots);
  incoming.reserve(keys.size());
  uint64_t copying = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (pins[i]) {
      if (pins[i].payload().size() != TotalSize(from(i))) {
        counters_->refused_size.Add(1);  // equal keys name equal bytes; this caller breaks that
        pins[i].Release();
        continue;
      }
      if (pins[i].replica()) pool_->Adopt(&pins[i], tag);
      counters_->write_duplicates.Add(1);
      continue;
    }
    if (!slots[i]) {
      auto reservation = room_->Reserve(lengths[i], room_deadline);
      if (!reservation.ok()) {
        const bool full = reservation.status().code() == Code::kResourceExhausted;
        (full ? counters_->refused_full : counters_->refused_size).Add(1);
        continue;
      }
      slots[i] = std::move(*reservation);
    }
    incoming.push_back(i);
    copying += lengths[i];
  }
  const TimePoint reserved = Clock::now();
  counters_->set_reserve.Observe(reserved - start);
  std::vector<uint64_t> checksums(keys.size());
  std::vector<uint8_t> copied(keys.size());
  ForEach(incoming.size(), copying, [&](size_t p) {
    const size_t page = incoming[p];
    copied[page] = GuardedGather(slots[page].payload(), from(page));
    if (copied[page] && ChecksumWanted(options_.checksums, keys[page]))
      checksums[page] = Checksum(slots[page].payload());
  });
  const bool given_up = permit != nullptr && permit->revoked();
  if (copying > 0) counters_->set_copy.Observe(Clock::now() - reserved);
  uint64_t bytes = 0;
  for (const size_t page : incoming) {
    if (!copied[page] || given_up) {
      (given_up ? counters_->refused_given_up : counters_->refused_copy).Add(1);
      slots[page] = {};
    } else {
      bytes += lengths[page];
    }
  }
  pool_->CommitMany(slots, keys, tag, checksums, pins);
  std::vector<PinnedPage> pages;
  std::vector<size_t> which;
  pages.reserve(keys.size());
  which.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!pins[i]) continue;
    const Record record = publisher_->RecordOf(pins[i]);
    pages.push_back({keys[i], record, std::move(pins[i])});
    which.push_back(i);
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

bool Pages::MayServe(TimePoint start) {
  return clears_->Current(start) || clears_->Await(start, start + options_.peer_timeout);
}

TimePoint Pages::DeadlineFor(uint64_t bytes, TimePoint start) const {
  return start + options_.peer_timeout +
         milliseconds(static_cast<int64_t>(bytes / kMinBytesPerMilli));
}

void Pages::Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
                std::span<uint8_t> ok, const Permit* permit, bool unmapped) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->read_requests.Add(keys.size());
  const TimePoint start = Clock::now();
  if (!MayServe(start)) {
    const bool joined = views_->Get() != nullptr;
    (joined ? counters_->miss_behind : counters_->miss_no_view).Add(keys.size());
    return;
  }
  const Destinations to{segments, per_page, permit, unmapped};
  StageTime copy(&counters_->get_copy);
  if (unmapped) {
    // Nobody can copy from there, so the call shares nothing with others.
    const auto others = ReadLocal(keys, to, ok, start, &copy);
    std::vector<uint64_t> checksums(keys.size());
    if (!others.empty()) Fetch(keys, others, to, ok, checksums, start);
    return;
  }
  auto wanted = GetLocal(keys, to, ok, start, &copy);
  if (wanted.empty()) return;
  const uint64_t epoch = replicas_->epoch(), kept = replicas_->kept();
  size_t replicated = GetReplicas(keys, to, ok, &wanted, nullptr, &copy);

  const auto call = std::make_shared<Flights::Call>(to, epoch);
  std::vector<size_t> led;
  std::vector<Flights::Followed> followed;
  flights_.Join(keys, wanted, call.get(), &led, &followed);
  std::vector<size_t> absent = led;
  // Between the two looks, a call that was bringing these pages may have left them as replicas and
  // ended. Copying what the first look had found takes long enough for that.
  if (replicas_->kept() != kept) replicated += GetReplicas(keys, to, ok, &absent, pool_, &copy);
  replicas_->Observe(replicated + followed.size(), absent.size());
  std::vector<uint64_t> checksums(absent.empty() ? 0 : keys.size());
  if (!absent.empty()) Fetch(keys, absent, to, ok, checksums, start);
  flights_.Land(call.get(), ok);
  if (!followed.empty()) {
    const TimePoint landed = Clock::now();
    for (const Flights::Followed& f : followed) {
      const TimePoint deadline = DeadlineFor(to.SizeOf(f.page) * followed.size(), start);
      if (flights_.Copy(f, to, deadline)) ok[f.page] = From(PageSource::kShared);
      (ok[f.page] ? counters_->read_shared_hits : counters_->miss_absent).Add(1);
      if (ok[f.page]) counters_->bytes_shared.Add(to.SizeOf(f.page));
    }
    counters_->get_share.Observe(Clock::now() - landed);
  }
  // Kept before others cease to follow, so that nobody finds neither the flight nor the replica.
  if (!absent.empty()) replicas_->Keep(keys, absent, ok, to, epoch, checksums);
  uint64_t bytes = 0;
  for (const size_t page : wanted) bytes += to.SizeOf(page);
  flights_.Leave(keys, led, call.get(), DeadlineFor(bytes, start));
}

PageSource Pages::CopyOut(const PagePin& pin, const Destinations& to, size_t page) {
  {
    const Permit::Use use(to.permit);
    if (!use || !GuardedScatter(to.Of(page), pin.payload())) {
      (use ? counters_->miss_copy : counters_->miss_given_up).Add(1);
      return PageSource::kNowhere;
    }
  }
  const SlotHeader& header = pin.header();
  if (header.checksum != 0 && ChecksumWanted(options_.checksums, header.key)) {
    counters_->verified.Add(1);
    if (Checksum(pin.payload()) != header.checksum) {
      counters_->miss_corrupt.Add(1);
      return PageSource::kNowhere;
    }
  }
  (pin.replica() ? counters_->read_replica_hits : counters_->read_local_hits).Add(1);
  (pin.replica() ? counters_->bytes_replica : counters_->bytes_local).Add(pin.payload().size());
  return Here(pin);
}

std::vector<size_t> Pages::GetLocal(std::span<const Key> keys, const Destinations& to,
                                    std::span<uint8_t> ok, TimePoint start, StageTime* stage) {
  std::vector<size_t> here, others;
  here.reserve(keys.size());
  others.reserve(keys.size());
  std::vector<PagePin> pins(keys.size());
  pool_->FindMany(keys, pins);
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    (pins[i] ? here : others).push_back(i);
    if (pins[i]) bytes += pins[i].payload().size();
  }
  ForEach(here.size(), bytes, [&](size_t h) {
    const size_t page = here[h];
    ok[page] = From(CopyOut(pins[page], to, page));
    pins[page].Release();
  });
  if (!here.empty()) stage->Add(Clock::now() - start);
  return others;
}

std::vector<size_t> Pages::ReadLocal(std::span<const Key> keys, const Destinations& to,
                                     std::span<uint8_t> ok, TimePoint start, StageTime* stage) {
  std::vector<PagePin> pins(keys.size());
  pool_->FindMany(keys, pins);
  std::vector<RemotePage> here;
  std::vector<size_t> others;
  for (size_t i = 0; i < keys.size(); ++i) {
    // Its pin keeps the slot as it is for as long as the call lasts.
    if (pins[i] && pins[i].payload().size() == to.SizeOf(i)) {
      here.push_back({keys[i], publisher_->RecordOf(pins[i]), i, TimePoint::max()});
    } else {
      others.push_back(i);
    }
  }
  if (here.empty()) return others;
  std::vector<ReadOutcome> outcomes(here.size());
  reader_.Read(here, to, outcomes, start + options_.peer_timeout);
  for (size_t h = 0; h < here.size(); ++h) {
    const size_t page = here[h].page;
    if (!Arrived(outcomes[h]) || to.revoked()) {
      others.push_back(page);
      continue;
    }
    ok[page] = From(Here(pins[page]));
    (pins[page].replica() ? counters_->read_replica_hits : counters_->read_local_hits).Add(1);
    (pins[page].replica() ? counters_->bytes_replica : counters_->bytes_local)
        .Add(here[h].record.length);
  }
  stage->Add(Clock::now() - start);
  return others;
}

size_t Pages::GetReplicas(std::span<const Key> keys, const Destinations& to, std::span<uint8_t> ok,
                          std::vector<size_t>* wanted, Pool* pool, StageTime* stage) {
  std::vector<Key> asked;
  asked.reserve(wanted->size());
  for (const size_t page : *wanted) asked.push_back(keys[page]);
  std::vector<PagePin> pins(asked.size());
  const TimePoint start = Clock::now();
  replicas_->Find(asked, pins);
  if (pool != nullptr) {
    std::vector<PagePin> more(asked.size());
    pool->FindMany(asked, more);
    for (size_t i = 0; i < pins.size(); ++i)
      if (!pins[i]) pins[i] = std::move(more[i]);
  }
  size_t kept = 0;
  for (size_t i = 0; i < pins.size(); ++i) {
    const size_t page = (*wanted)[i];
    if (pins[i]) ok[page] = From(CopyOut(pins[i], to, page));
    if (ok[page]) {
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
                  std::span<uint8_t> ok, std::span<uint64_t> checksums, TimePoint start) {
  const auto view = views_->Wait(start + options_.peer_timeout);
  if (view == nullptr) {
    counters_->miss_no_view.Add(pages.size());
    return;
  }
  uint64_t bytes = 0;
  for (const size_t page : pages) bytes += to.SizeOf(page);
  const TimePoint deadline = DeadlineFor(bytes, start);
  StageTime read(&counters_->get_read);
  std::vector<Wanted> wanted;
  wanted.reserve(pages.size());
  for (const size_t page : pages) wanted.push_back({page});
  std::vector<uint64_t> failed;
  std::vector<Key> asked;
  asked.reserve(pages.size());
  std::vector<Record> records;
  std::vector<TimePoint> until;
  const auto ask = [&] {
    asked.clear();
    for (const Wanted& w : wanted) asked.push_back(keys[w.page]);
    records.resize(wanted.size());
    until.resize(wanted.size());
  };

  ask();
  if (locator_->Recall(asked, records, until, start) > 0) {
    // Where an earlier lookup has found them.
    Read(keys, &wanted, records, until, to, ok, checksums, deadline, &read, &failed);
    failed.clear();  // a lookup knows more than what was remembered
  }
  // Where they are now; then, of those that were not there, where else they are. One record for
  // each key is enough for that: to bring alternatives along would double every answer of a shard,
  // for the few calls that meet a holder just as it fails or evicts.
  for (int round = 0; round < 2 && !wanted.empty(); ++round) {
    ask();
    const TimePoint lookup = Clock::now();
    const auto unanswered = locator_->Lookup(*view, asked, records,
                                             std::min(deadline, lookup + options_.stall), failed);
    counters_->get_lookup.Observe(Clock::now() - lookup);
    // The holder lets a slot rest by its own lease, which may be another than ours.
    for (size_t i = 0; i < records.size(); ++i)
      until[i] = lookup + std::min<Duration>(options_.lease, milliseconds(records[i].lease_ms));
    for (const size_t i : unanswered)
      if (wanted[i].why == Wanted::kAbsent) wanted[i].why = Wanted::kUnanswered;
    const size_t before = wanted.size();
    Read(keys, &wanted, records, until, to, ok, checksums, deadline, &read, &failed);
    if (round > 0) {
      counters_->read_elsewhere.Add(before - wanted.size());
      break;
    }
    const auto drop = [&](Wanted::Why why) {
      return std::erase_if(wanted, [why](const Wanted& w) { return w.why == why; });
    };
    // Nobody has these, or who has them cannot be known in time.
    counters_->miss_absent.Add(drop(Wanted::kAbsent));
    counters_->miss_unreachable.Add(drop(Wanted::kUnanswered));
  }
  for (const Wanted& w : wanted)
    (w.why == Wanted::kStale ? counters_->miss_stale : counters_->miss_unreachable).Add(1);
}

void Pages::Read(std::span<const Key> keys, std::vector<Wanted>* wanted,
                 std::span<const Record> records, std::span<const TimePoint> until,
                 const Destinations& to, std::span<uint8_t> ok, std::span<uint64_t> checksums,
                 TimePoint deadline, StageTime* stage, std::vector<uint64_t>* failed) {
  const TimePoint start = Clock::now();
  std::vector<RemotePage> remote;
  remote.reserve(wanted->size());
  std::vector<Wanted> left;
  const auto lost = [&](size_t page, Wanted::Why why, uint64_t holder) {
    left.push_back({page, why});
    locator_->Forget(keys[page]);
    if (std::find(failed->begin(), failed->end(), holder) == failed->end())
      failed->push_back(holder);
  };
  for (size_t i = 0; i < wanted->size(); ++i) {
    const auto [page, why] = (*wanted)[i];
    const Record& record = records[i];
    if (record.node == 0) {
      left.push_back({page, why});
    } else if (start >= until[i]) {
      // What was remembered may end between the look at it and here; its holder is not at fault.
      left.push_back({page, Wanted::kStale});
      locator_->Forget(keys[page]);
    } else if (record.length != to.SizeOf(page)) {
      lost(page, Wanted::kStale, record.node);
    } else {
      remote.push_back({keys[page], record, page, until[i]});
    }
  }
  std::vector<ReadOutcome> outcomes(remote.size());
  if (!remote.empty()) {
    reader_.Read(remote, to, outcomes, deadline);
    stage->Add(Clock::now() - start);
  }
  if (to.revoked()) {  // none of it counts
    counters_->miss_given_up.Add(remote.size() + left.size());
    wanted->clear();
    return;
  }
  uint64_t corrupt = 0;
  for (size_t i = 0; i < remote.size(); ++i) {
    const Record& record = remote[i].record;
    const size_t page = remote[i].page;
    switch (outcomes[i]) {
      case ReadOutcome::kRead:
      case ReadOutcome::kReadByRdma:
        ok[page] = From(outcomes[i] == ReadOutcome::kRead ? PageSource::kTcp : PageSource::kRdma);
        checksums[page] = record.checksum;
        counters_->read_remote_hits.Add(1);
        counters_->bytes_remote.Add(record.length);
        break;
      case ReadOutcome::kStale: lost(page, Wanted::kStale, record.node); break;
      case ReadOutcome::kUnreachable: lost(page, Wanted::kUnreachable, record.node); break;
      case ReadOutcome::kExpired: counters_->miss_expired.Add(1); break;
      case ReadOutcome::kCorrupt: ++corrupt; break;
    }
  }
  if (corrupt > 0) {
    counters_->miss_corrupt.Add(corrupt);
    spdlog::error("{} pages arrived with wrong bytes (checksum): memory or network is at fault",
                  corrupt);
  }
  wanted->swap(left);
}

size_t Pages::Exists(std::span<const Key> keys) {
  counters_->exists_requests.Add(1);
  counters_->exists_pages.Add(keys.size());
  std::vector<uint8_t> there(keys.size(), 0);
  Find(keys, there, &counters_->exists_lookup);
  const auto end = std::find(there.begin(), there.end(), uint8_t{0});
  const auto hits = static_cast<size_t>(end - there.begin());
  counters_->exists_pages_found.Add(hits);
  return hits;
}

size_t Pages::Presence(std::span<const Key> keys, std::span<uint8_t> there) {
  counters_->presence_requests.Add(1);
  counters_->presence_pages.Add(keys.size());
  std::fill(there.begin(), there.end(), uint8_t{0});
  Find(keys, there, &counters_->presence_lookup);
  const auto found = static_cast<size_t>(std::count(there.begin(), there.end(), uint8_t{1}));
  counters_->presence_pages_found.Add(found);
  return found;
}

void Pages::Find(std::span<const Key> keys, std::span<uint8_t> there,
                 LatencyHistogram* lookup_time) {
  const TimePoint start = Clock::now();
  if (!MayServe(start)) return;
  pool_->ContainsMany(keys, there);
  replicas_->ContainsMany(keys, there);
  std::span<const Key> asked = keys;
  std::vector<Key> elsewhere;
  if (std::ranges::find(there, uint8_t{1}) != there.end()) {
    for (size_t i = 0; i < keys.size(); ++i)
      if (!there[i]) elsewhere.push_back(keys[i]);
    asked = elsewhere;
  }
  if (asked.empty()) return;
  const auto view = views_->Wait(start + options_.peer_timeout);
  if (view == nullptr) return;
  std::vector<Record> records(asked.size());
  const TimePoint lookup = Clock::now();
  locator_->Lookup(*view, asked, records, start + options_.stall);
  lookup_time->Observe(Clock::now() - lookup);
  auto record = records.begin();
  for (uint8_t& found : there)
    if (!found) found = (record++)->node != 0;
}

}  // namespace peercache
