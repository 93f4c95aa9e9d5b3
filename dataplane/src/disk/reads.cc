#include "disk/reads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checksum.h"

namespace peercache::disk {

Reads::Reads(std::vector<Part> parts, Catalog* catalog, Counts* counts)
    : parts_(std::move(parts)),
      catalog_(catalog),
      counts_(counts),
      tails_(uint64_t{kTails} * kBlock) {
  for (const Part& part : parts_)
    memory_alignment_ =
        std::max(memory_alignment_,
                 part.device != nullptr ? part.device->file().memory_alignment : uint32_t{kBlock});
  for (uint32_t i = 0; tails_ && i < kTails; ++i)
    free_tails_.push_back(tails_.data() + uint64_t{i} * kBlock);
}

size_t Reads::Read(std::span<DiskRead* const> reads, TimePoint deadline) {
  constexpr size_t kAtOnce = 64;
  DiskRead::Waiter waiter;
  size_t late = 0,
         waited = 0;  // reads before `waited` have ended, or are late and not ours any more
  const auto wait_for_one = [&](size_t begun) {
    while (waited != begun && !reads[waited]->begun_) ++waited;
    if (waited == begun) return false;
    if (!Await(reads[waited++], &waiter, deadline)) ++late;
    return true;
  };
  const auto head_has_ended = [&](size_t begun) {
    while (waited != begun && !reads[waited]->begun_) ++waited;
    return waited != begun && HasEnded(reads[waited], &waiter);
  };
  for (size_t first = 0; first < reads.size(); first += kAtOnce) {
    const auto some = reads.subspan(first, std::min(kAtOnce, reads.size() - first));
    std::array<Key, kAtOnce> keys;
    std::array<DiskPage, kAtOnce> pages;
    std::array<DiskRead*, kAtOnce> begun;
    for (size_t i = 0; i < some.size(); ++i) keys[i] = some[i]->key;
    catalog_->Find(std::span(keys).first(some.size()), std::span(pages).first(some.size()));
    size_t count = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      some[i]->page = pages[i];
      bool ready = Prepare(some[i], &waiter);
      // A long batch goes through in pieces; another one's reads are not waited for.
      while (!ready && some[i]->outcome == ReadOutcome::kBusy) {
        Submit(std::span(begun).first(std::exchange(count, 0)), &waiter);
        // Pages are verified while others are on their way.
        const bool made_room = !head_has_ended(first + i) && AwaitAny(&waiter, deadline);
        if (!made_room && !wait_for_one(first + i)) break;
        ready = Prepare(some[i], &waiter);
      }
      if (ready)
        begun[count++] = some[i];
      else
        counts_->reads.Add(some[i]->outcome);
    }
    Submit(std::span(begun).first(count), &waiter);
  }
  while (wait_for_one(reads.size())) {
  }
  return late;
}

bool Reads::Await(DiskRead* read, DiskRead::Waiter* waiter, TimePoint deadline) {
  std::unique_lock lock(waiter->mutex);
  waiter->awaited = read;
  const auto has_ended = [&] { return read->ended_; };
  if (!waiter->ended.wait_until(lock, deadline, has_ended)) {
    if (read->waiter_.exchange(nullptr, std::memory_order_acq_rel) != nullptr) {
      // Whoever ends it now does not find us. Nothing of it may be touched from here on.
      counts_->reads.Add(ReadOutcome::kLate);
      return false;
    }
    waiter->ended.wait(lock, has_ended);  // it is just ending
  }
  lock.unlock();
  Finish(read);
  return true;
}

bool Reads::AwaitAny(DiskRead::Waiter* waiter, TimePoint deadline) {
  std::unique_lock lock(waiter->mutex);
  if (waiter->replaced == waiter->begun) return false;
  waiter->awaited = nullptr;
  if (!waiter->ended.wait_until(lock, deadline, [&] { return waiter->landed != waiter->replaced; }))
    return false;
  ++waiter->replaced;
  return true;
}

bool Reads::HasEnded(const DiskRead* read, DiskRead::Waiter* waiter) {
  const std::lock_guard lock(waiter->mutex);
  return read->ended_;
}

bool Reads::Prepare(DiskRead* read, DiskRead::Waiter* waiter) {
  const DiskPage& page = read->page;
  read->begun_ = read->ended_ = false;
  read->tail_ = nullptr;
  if (page.length == 0) {
    read->outcome = ReadOutcome::kAbsent;
    return false;
  }
  if (read->memory.size() < page.length ||
      reinterpret_cast<uintptr_t>(read->memory.data()) % memory_alignment_ != 0) {
    read->outcome = ReadOutcome::kMisfit;
    return false;
  }
  const Part& part = parts_[page.at.device];
  if (!part.device->on()) {
    read->outcome = ReadOutcome::kOff;
    return false;
  }
  if (!part.device->AdmitRead(page.length)) {
    read->outcome = ReadOutcome::kBusy;
    return false;
  }
  const uint64_t whole = AlignUp(page.length);
  read->request_.Set(IoRequest::Op::kRead, read->memory.data(), whole,
                     part.geometry.region_at(page.at.region) + page.offset);
  if (whole > read->memory.size()) {
    read->tail_ = TakeTail();
    if (read->tail_ == nullptr) {
      part.device->ReadEnded(page.length);
      read->outcome = ReadOutcome::kBusy;
      return false;
    }
    const uint64_t body = whole - kBlock;
    auto& parts = read->request_.part;
    parts[0].iov_len = body;
    parts[body == 0 ? 0 : 1] = {read->tail_, kBlock};
    read->request_.parts = body == 0 ? 1 : 2;
  }
  read->reads_ = this;
  read->request_.context = read;
  read->request_.done = [](IoRequest* request) {
    auto* landed = static_cast<DiskRead*>(request->context);
    landed->reads_->Landed(landed);
  };
  read->outcome = ReadOutcome::kLate;  // until it is known better
  read->begun_ = true;
  ++waiter->begun;
  read->waiter_.store(waiter, std::memory_order_release);
  return true;
}

void Reads::Submit(std::span<DiskRead* const> reads, DiskRead::Waiter* waiter) {
  std::array<IoRequest*, 64> requests;
  for (size_t device = 0; device < parts_.size(); ++device) {
    size_t count = 0;
    for (DiskRead* read : reads)
      if (read->page.at.device == device) requests[count++] = &read->request_;
    if (count == 0 || parts_[device].device->Submit(std::span(requests).first(count))) continue;
    for (size_t i = 0; i < count; ++i) {
      auto* read = static_cast<DiskRead*>(requests[i]->context);
      read->begun_ = false;
      --waiter->begun;
      parts_[device].device->ReadEnded(read->page.length);
      End(read, ReadOutcome::kOff);
    }
  }
}

void Reads::Landed(DiskRead* read) {
  parts_[read->page.at.device].device->ReadEnded(read->page.length);
  DiskRead::Waiter* waiter = read->waiter_.exchange(nullptr, std::memory_order_acq_rel);
  if (waiter != nullptr) {
    // The waiter lives until it has seen ended_, under this lock.
    const std::lock_guard lock(waiter->mutex);
    read->ended_ = true;
    ++waiter->landed;
    if (waiter->awaited == nullptr || waiter->awaited == read) waiter->ended.notify_one();
    return;
  }
  // Its outcome is the caller's already.
  if (read->tail_ != nullptr) GiveTail(std::exchange(read->tail_, nullptr));
  if (read->landed != nullptr) read->landed(read);
}

void Reads::Finish(DiskRead* read) {
  const DiskPage& page = read->page;
  const int64_t result = read->request_.result;
  const auto bytes = std::span<const std::byte>(read->memory).first(page.length);
  ReadOutcome outcome = ReadOutcome::kHit;
  if (result != static_cast<int64_t>(AlignUp(page.length))) {
    outcome = result < 0 ? ReadOutcome::kError : ReadOutcome::kShort;
  } else {
    if (read->tail_ != nullptr) {
      const uint64_t body = AlignUp(page.length) - kBlock;
      std::memcpy(read->memory.data() + body, read->tail_, page.length - body);
    }
    if (Checksum(bytes) != page.checksum) outcome = ReadOutcome::kChecksum;
  }
  if (outcome == ReadOutcome::kHit) {
    if (catalog_->SetRead(page))
      counts_->hit_bytes.fetch_add(page.length, std::memory_order_relaxed);
    else
      outcome = ReadOutcome::kOvertaken;
  } else if (!catalog_->Remove(page)) {
    // A region is written anew only after its pages have left the catalog.
    outcome = ReadOutcome::kOvertaken;
  }
  End(read, outcome);
}

void Reads::End(DiskRead* read, ReadOutcome outcome) {
  read->outcome = outcome;
  counts_->reads.Add(outcome);
  if (read->tail_ != nullptr) GiveTail(std::exchange(read->tail_, nullptr));
}

std::byte* Reads::TakeTail() {
  const std::lock_guard lock(tails_mutex_);
  if (free_tails_.empty()) return nullptr;
  std::byte* tail = free_tails_.back();
  free_tails_.pop_back();
  return tail;
}

void Reads::GiveTail(std::byte* tail) {
  const std::lock_guard lock(tails_mutex_);
  free_tails_.push_back(tail);
}

}  // namespace peercache::disk
