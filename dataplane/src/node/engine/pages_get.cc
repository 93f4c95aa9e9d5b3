#include <algorithm>
#include <memory>

#include "base/checksum.h"
#include "node/batch/deadline.h"
#include "node/engine/pages.h"
#include "node/read/worth.h"

namespace peercache {
namespace {

// Part of the pool that a get into device memory has pinned at a time: a piece is long enough to
// keep the rails busy, and the rest of the pool may be evicted.
constexpr uint64_t kPinnedShare = 16;

PageSource Here(const PagePin& pin) {
  return pin.replica() ? PageSource::kReplica : PageSource::kLocal;
}

void CountHit(PageSource source, uint64_t bytes, Counters* c) {
  switch (source) {
    case PageSource::kDisk:
      c->read_disk_hits.Add(1);
      c->bytes_disk.Add(bytes);
      break;
    case PageSource::kReplica:
      c->read_replica_hits.Add(1);
      c->bytes_replica.Add(bytes);
      break;
    default: c->read_local_hits.Add(1); c->bytes_local.Add(bytes);
  }
}

}  // namespace

void Pages::Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
                std::span<uint8_t> ok, const Permit* permit, bool unmapped, TenantNumber tenant,
                Duration recompute) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  counters_->read_requests.Add(keys.size());
  if (Bypassed()) {
    counters_->miss_bypass.Add(keys.size());
    return;
  }
  const TimePoint start = Clock::now();
  if (!MayServe(start)) {
    const bool joined = views_->Get() != nullptr;
    (joined ? counters_->miss_behind : counters_->miss_no_view).Add(keys.size());
    return;
  }
  const Destinations to{segments, per_page, permit, unmapped};
  GetBatch batch{keys, to, ok, start, recompute};
  StageTime copy(&counters_->get_copy);
  const auto deadline = [&](uint64_t bytes) {
    return DeadlineFor(bytes, options_.peer_timeout, start);
  };
  if (unmapped) {
    // Nobody can copy from there, so the call shares nothing with others.
    ReadOwnPool(&batch, &copy, tenant);
    if (!batch.wanted.empty()) fetcher_.Fetch(&batch, deadline(batch.WantedBytes()));
    return;
  }

  FromOwnPool(&batch, &copy);
  if (batch.wanted.empty()) return;
  const uint64_t epoch = replicas_->epoch(), kept = replicas_->kept();
  size_t replicated = FromReplicas(&batch, nullptr, &copy);
  if (disk_ != nullptr) FromOwnDisk(&batch, tenant);

  // Pages that another call is bringing already are copied from that call, at the end.
  const auto flight = std::make_shared<Flights::Call>(to, epoch);
  const TimePoint flown = deadline(batch.WantedBytes());
  std::vector<size_t> led;
  std::vector<Flights::Followed> followed;
  flights_.Join(keys, batch.wanted, flight.get(), &led, &followed);
  batch.wanted = led;
  // Between the two looks, a call that was bringing these pages may have left them as replicas and
  // ended. Copying what the first look had found takes long enough for that.
  if (replicas_->kept() != kept) replicated += FromReplicas(&batch, pool_, &copy);
  replicas_->Observe(replicated + followed.size(), batch.wanted.size());

  if (!batch.wanted.empty()) fetcher_.Fetch(&batch, deadline(batch.WantedBytes()));
  flights_.Land(flight.get(), ok);
  FromOtherCalls(&batch, followed);
  // Kept before others cease to follow, so that nobody finds neither the flight nor the replica.
  if (!batch.wanted.empty()) replicas_->Keep(keys, batch.wanted, ok, to, epoch, batch.checksums);
  flights_.Leave(keys, led, flight.get(), flown);
}

void Pages::FromOwnPool(GetBatch* batch, StageTime* stage) {
  const size_t count = batch->keys.size();
  std::vector<size_t> here;
  here.reserve(count);
  batch->wanted.reserve(count);
  std::vector<PagePin> pins(count);
  pool_->FindMany(batch->keys, pins);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    (pins[i] ? here : batch->wanted).push_back(i);
    if (pins[i]) bytes += pins[i].payload().size();
  }
  crew_.ForBytes(here.size(), bytes, [&](size_t h) {
    const size_t page = here[h];
    batch->Deliver(page, CopyOut(pins[page], Here(pins[page]), batch->to, page));
    pins[page].Release();
  });
  if (!here.empty()) stage->Add(Clock::now() - batch->start);
}

void Pages::ReadOwnPool(GetBatch* batch, StageTime* stage, TenantNumber tenant) {
  const size_t count = batch->keys.size();
  uint64_t all = 0;
  for (size_t i = 0; i < count; ++i) all += batch->to.SizeOf(i);
  const TimePoint loaded = DeadlineFor(all, options_.stall, batch->start);
  const TimePoint read = DeadlineFor(all, options_.peer_timeout, batch->start);
  // A batch may be longer than the pool, and what it has pinned makes no room for the rest of it.
  const uint64_t most = pool_->size() / kPinnedShare;
  for (size_t at = 0, end = 0; at < count; at = end) {
    uint64_t bytes = 0;
    do bytes += batch->to.SizeOf(end++);
    while (end < count && bytes + batch->to.SizeOf(end) <= most);
    std::vector<PagePin> pins(end - at);
    const auto keys = batch->keys.subspan(at, end - at);
    pool_->FindMany(keys, pins);
    if (disk_ != nullptr) disk_->Load(keys, pins, loaded, tenant);
    ReadPinned(batch, at, pins, read);
  }
  WantLate(*batch, tenant);
  if (batch->wanted.size() < count) stage->Add(Clock::now() - batch->start);
}

void Pages::ReadPinned(GetBatch* batch, size_t first, std::span<const PagePin> pins,
                       TimePoint deadline) {
  std::vector<RemotePage> here;
  for (size_t i = 0; i < pins.size(); ++i) {
    const size_t page = first + i;
    // Its pin keeps the slot as it is for as long as this lasts.
    if (pins[i] && pins[i].payload().size() == batch->to.SizeOf(page)) {
      here.push_back({batch->keys[page], publisher_->RecordOf(pins[i]), page, TimePoint::max()});
    } else {
      batch->wanted.push_back(page);
    }
  }
  if (here.empty()) return;
  std::vector<ReadOutcome> outcomes(here.size());
  reader_.Read(here, batch->to, outcomes, deadline);
  for (size_t h = 0; h < here.size(); ++h) {
    const size_t page = here[h].page;
    if (!Arrived(outcomes[h]) || batch->to.revoked()) {
      batch->wanted.push_back(page);
      continue;
    }
    const PageSource source = Here(pins[page - first]);
    batch->Deliver(page, source);
    CountHit(source, here[h].record.length, counters_);
  }
}

size_t Pages::FromReplicas(GetBatch* batch, Pool* pool, StageTime* stage) {
  std::vector<Key> asked;
  asked.reserve(batch->wanted.size());
  for (const size_t page : batch->wanted) asked.push_back(batch->keys[page]);
  std::vector<PagePin> pins(asked.size());
  const TimePoint start = Clock::now();
  replicas_->Find(asked, pins);
  if (pool != nullptr) {
    std::vector<PagePin> more(asked.size());
    pool->FindMany(asked, more);
    for (size_t i = 0; i < pins.size(); ++i)
      if (!pins[i]) pins[i] = std::move(more[i]);
  }
  for (size_t i = 0; i < pins.size(); ++i) {
    const size_t page = batch->wanted[i];
    if (pins[i]) batch->Deliver(page, CopyOut(pins[i], Here(pins[i]), batch->to, page));
    pins[i].Release();
  }
  const size_t before = batch->wanted.size();
  batch->DropDelivered();
  const size_t found = before - batch->wanted.size();
  if (found > 0) stage->Add(Clock::now() - start);
  return found;
}

void Pages::FromOwnDisk(GetBatch* batch, TenantNumber tenant) {
  // As many as the drive is asked for at a time.
  constexpr size_t kPiece = 64;
  const std::vector<size_t> asked = WorthOfOwnDisk(batch);
  const TimePoint start = Clock::now();
  TimePoint deadline = DeadlineFor(batch->WantedBytes(), options_.stall, batch->start);
  if (batch->hurried())
    deadline = std::min(deadline, start + PatienceFor(batch->recompute, asked.size()));
  uint64_t came = 0, late = 0;
  for (size_t at = 0; at < asked.size(); at += kPiece) {
    const auto piece = std::span(asked).subspan(at, std::min(kPiece, asked.size() - at));
    std::vector<Key> keys;
    for (const size_t page : piece) keys.push_back(batch->keys[page]);
    std::vector<PagePin> pins(piece.size());
    disk_->Load(keys, pins, deadline, tenant);
    uint64_t bytes = 0;
    for (size_t i = 0; i < pins.size(); ++i) {
      bytes += pins[i] ? pins[i].payload().size() : 0;
      late += pins[i] ? 0 : batch->to.SizeOf(piece[i]);
    }
    came += bytes;
    crew_.ForBytes(piece.size(), bytes, [&](size_t i) {
      if (!pins[i]) return;
      batch->Deliver(piece[i], CopyOut(pins[i], PageSource::kDisk, batch->to, piece[i]));
      pins[i].Release();
    });
  }
  const TimePoint now = Clock::now();
  if (batch->hurried()) {
    own_disk_.Took(came, 0, now - start);
    if (now >= deadline) own_disk_.Lost(late, now - start, now);
    for (const size_t page : asked)
      if (batch->ok[page] == 0) batch->left[page] = 1;
  }
  batch->DropDelivered();
  WantLate(*batch, tenant);
}

std::vector<size_t> Pages::WorthOfOwnDisk(GetBatch* batch) {
  if (!batch->hurried()) return batch->wanted;
  std::vector<Key> keys;
  for (const size_t page : batch->wanted) keys.push_back(batch->keys[page]);
  std::vector<uint8_t> there(keys.size());
  disk_->ContainsMany(keys, there);
  std::vector<size_t> asked;
  uint64_t bytes = 0;
  for (size_t i = 0; i < there.size(); ++i) {
    if (!there[i]) continue;
    asked.push_back(batch->wanted[i]);
    bytes += batch->to.SizeOf(batch->wanted[i]);
  }
  if (asked.empty()) return asked;
  batch->left.assign(batch->keys.size(), 0);
  disk_page_bytes_.store(bytes / asked.size(), std::memory_order_relaxed);
  const size_t kept = own_disk_.ToAskFor(
      asked.size(), bytes, 0, WorthOf(batch->recompute, asked.size()), Purpose::kGet, Clock::now());
  for (const size_t page : std::span(asked).subspan(kept)) batch->left[page] = 1;
  asked.resize(kept);
  return asked;
}

void Pages::WantLate(const GetBatch& batch, TenantNumber tenant) {
  if (disk_ == nullptr || batch.wanted.empty()) return;
  std::vector<Key> late;
  for (const size_t page : batch.wanted) late.push_back(batch.keys[page]);
  disk_->Want(late, tenant);
}

void Pages::FromOtherCalls(GetBatch* batch, std::span<const Flights::Followed> followed) {
  if (followed.empty()) return;
  const TimePoint landed = Clock::now();
  for (const Flights::Followed& f : followed) {
    const uint64_t size = batch->to.SizeOf(f.page);
    TimePoint deadline = DeadlineFor(size * followed.size(), options_.peer_timeout, batch->start);
    if (batch->hurried())
      deadline = std::min(deadline, landed + PatienceFor(batch->recompute, followed.size()));
    const bool copied = flights_.Copy(f, batch->to, deadline);
    if (copied) batch->Deliver(f.page, PageSource::kShared);
    (copied ? counters_->read_shared_hits : counters_->miss_absent).Add(1);
    if (copied) counters_->bytes_shared.Add(size);
  }
  counters_->get_share.Observe(Clock::now() - landed);
}

PageSource Pages::CopyOut(const PagePin& pin, PageSource source, const Destinations& to,
                          size_t page) {
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
  CountHit(source, pin.payload().size(), counters_);
  return source;
}

}  // namespace peercache
