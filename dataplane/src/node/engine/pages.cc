#include "node/engine/pages.h"

#include <algorithm>

#include "base/checksum.h"
#include "node/batch/deadline.h"
#include "node/read/worth.h"

namespace peercache {

Pages::Pages(PagesOptions options, Pool* pool, const Views* views, const Peers* peers,
             Publisher* publisher, Locator* locator, Replicas* replicas, Room* room,
             std::vector<PageReader*> readers, Clears* clears, Counters* counters, DiskPages* disk)
    : options_(options),
      peers_(peers),
      pool_(pool),
      views_(views),
      publisher_(publisher),
      locator_(locator),
      replicas_(replicas),
      room_(room),
      clears_(clears),
      counters_(counters),
      disk_(disk),
      crew_(options.copy_threads - 1),
      reader_(std::move(readers), options.checksums, counters, &crew_),
      fetcher_({options.lease, options.peer_timeout, options.stall}, views, peers, locator,
               &reader_, counters),
      warmer_(peers, options.stall) {}

void Pages::Set(std::span<const Key> keys, std::span<const ConstBytes> segments, size_t per_page,
                uint64_t tag, std::span<uint8_t> ok, const Permit* permit, TenantNumber tenant) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->write_requests.Add(keys.size());
  if (Bypassed()) {
    counters_->refused_bypass.Add(keys.size());
    return;
  }
  const TimePoint start = Clock::now();
  if (views_->Wait(start + options_.peer_timeout) == nullptr) {
    counters_->refused_no_view.Add(keys.size());
    return;
  }
  // Room is made by eviction, whose slots may rest for a lease: worth waiting for, but not long.
  const TimePoint room_deadline = start + options_.peer_timeout / 2;
  const auto from = [&](size_t page) { return segments.subspan(page * per_page, per_page); };
  std::vector<PagePin> pins(keys.size());              // of pages that are here
  std::vector<Reservation> slots(keys.size());         // of those on their way
  std::vector<size_t> lengths(keys.size()), incoming;  // length 0: the page was set before
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
      if (pins[i].replica()) {
        pool_->Adopt(&pins[i], tag, tenant);
        lengths[i] = pins[i].payload().size();
      }
      counters_->write_duplicates.Add(1);
      continue;
    }
    if (!slots[i]) {
      auto reservation = room_->Reserve(lengths[i], room_deadline, tenant);
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
  crew_.ForBytes(incoming.size(), copying, [&](size_t p) {
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
  pool_->CommitMany(slots, keys, tag, checksums, pins, tenant);
  std::vector<HeldPage> pages;
  std::vector<size_t> which;
  std::vector<PageAt> for_disk;
  pages.reserve(keys.size());
  which.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!pins[i]) continue;
    pages.push_back(publisher_->Held(std::move(pins[i])));
    const Record& record = pages.back().record;
    if (disk_ != nullptr && lengths[i] != 0)
      for_disk.push_back({record.offset, record.generation, keys[i]});
    which.push_back(i);
  }
  if (disk_ != nullptr) disk_->Keep(for_disk, for_disk.size() < pages.size(), tenant);
  std::vector<uint8_t> published(pages.size());
  const TimePoint publishing = Clock::now();
  publisher_->Publish(pages, published, DeadlineFor(bytes, options_.peer_timeout, start));
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

size_t Pages::Exists(std::span<const Key> keys, TenantNumber tenant, Duration recompute) {
  counters_->exists_requests.Add(1);
  counters_->exists_pages.Add(keys.size());
  std::vector<uint8_t> there(keys.size(), 0);
  const auto on_disks = Find(keys, there, recompute, &counters_->exists_lookup);
  const auto slow = std::ranges::find_if(there, [](uint8_t t) { return t != 1; });
  const auto end = std::find(slow, there.end(), uint8_t{0});
  counters_->slower_pages.Add(static_cast<uint64_t>(end - slow));
  const auto hits = static_cast<size_t>(slow - there.begin());
  Warm(keys.first(hits), on_disks, tenant);
  counters_->exists_pages_found.Add(hits);
  return hits;
}

void Pages::Warm(std::span<const Key> keys, std::span<const NodeGroups::Item> on_disks,
                 TenantNumber tenant) {
  std::vector<OnDisk> elsewhere;
  for (const auto& [node, index] : on_disks)
    if (index < keys.size()) elsewhere.push_back({node, keys[index]});
  warmer_.Want(elsewhere);
  if (disk_ == nullptr) return;
  std::vector<uint8_t> here(keys.size(), 0);
  pool_->ContainsMany(keys, here);
  std::vector<Key> absent;
  for (size_t i = 0; i < keys.size(); ++i)
    if (!here[i]) absent.push_back(keys[i]);
  if (!absent.empty()) disk_->Want(absent, tenant);
}

size_t Pages::Presence(std::span<const Key> keys, std::span<uint8_t> there, Duration recompute) {
  counters_->presence_requests.Add(1);
  counters_->presence_pages.Add(keys.size());
  std::fill(there.begin(), there.end(), uint8_t{0});
  Find(keys, there, recompute, &counters_->presence_lookup);
  counters_->slower_pages.Add(static_cast<uint64_t>(std::ranges::count(there, kSlow)));
  std::ranges::replace(there, kSlow, uint8_t{0});
  const auto found = static_cast<size_t>(std::count(there.begin(), there.end(), uint8_t{1}));
  counters_->presence_pages_found.Add(found);
  return found;
}

std::vector<NodeGroups::Item> Pages::Find(std::span<const Key> keys, std::span<uint8_t> there,
                                          Duration recompute, LatencyHistogram* lookup_time) {
  std::vector<NodeGroups::Item> on_disks;
  const TimePoint start = Clock::now();
  if (Bypassed() || !MayServe(start)) return on_disks;
  pool_->ContainsMany(keys, there);
  replicas_->ContainsMany(keys, there);
  const auto slow = FindOnOwnDisk(keys, there, recompute);
  std::span<const Key> asked = keys;
  std::vector<Key> elsewhere;
  if (std::ranges::find(there, uint8_t{1}) != there.end()) {
    for (size_t i = 0; i < keys.size(); ++i)
      if (!there[i]) elsewhere.push_back(keys[i]);
    asked = elsewhere;
  }
  if (asked.empty()) return on_disks;
  const auto view = views_->Wait(start + options_.peer_timeout);
  if (view == nullptr) return on_disks;
  std::vector<Record> records(asked.size());
  const TimePoint lookup = Clock::now();
  const bool hurried = recompute > Duration::zero();
  Duration limit = options_.stall;
  if (hurried) limit = std::min(limit, PatienceFor(recompute, asked.size()));
  locator_->Lookup(*view, asked, records, lookup + limit, {}, hurried);
  lookup_time->Observe(Clock::now() - lookup);
  std::vector<size_t> dropped;
  if (hurried) {
    const auto found = static_cast<size_t>(
        std::ranges::count_if(records, [](const Record& record) { return record.node != 0; }));
    dropped = NotWorth(*peers_, records, WorthOf(recompute, found), Purpose::kExists, lookup);
  }
  auto drop = dropped.begin();
  for (size_t i = 0, r = 0; i < there.size(); ++i) {
    if (there[i]) continue;
    const Record& record = records[r];
    there[i] = record.node != 0;
    if (drop != dropped.end() && *drop == r) {
      there[i] = kSlow;
      ++drop;
    }
    if (there[i] == 1 && record.tier == Tier::kDisk) on_disks.push_back({record.node, i});
    ++r;
  }
  for (const size_t i : slow)
    if (!there[i]) there[i] = kSlow;
  return on_disks;
}

std::vector<SlowPlace> Pages::SlowPlaces() const {
  std::vector<SlowPlace> places = peers_->SlowPlaces();
  if (own_disk_.slow())
    places.push_back({peers_->self(), Tier::kDisk, own_disk_.bytes_per_second()});
  return places;
}

std::vector<size_t> Pages::FindOnOwnDisk(std::span<const Key> keys, std::span<uint8_t> there,
                                         Duration recompute) {
  if (disk_ == nullptr) return {};
  if (recompute == Duration::zero()) {
    disk_->ContainsMany(keys, there);
    return {};
  }
  std::vector<uint8_t> with_disk(there.begin(), there.end());
  disk_->ContainsMany(keys, with_disk);
  std::vector<size_t> found;
  for (size_t i = 0; i < keys.size(); ++i)
    if (with_disk[i] && !there[i]) found.push_back(i);
  const uint64_t bytes = found.size() * disk_page_bytes_.load(std::memory_order_relaxed);
  if (own_disk_.ToAskFor(found.size(), bytes, 0, WorthOf(recompute, found.size()), Purpose::kExists,
                         Clock::now()) == 0) {
    return found;
  }
  for (const size_t i : found) there[i] = 1;
  return {};
}

}  // namespace peercache
