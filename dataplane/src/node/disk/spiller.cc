#include "node/disk/spiller.h"

#include <utility>

#include "base/thread.h"

namespace peercache {
namespace {

// A third of what a write buffer takes at the write rate.
constexpr milliseconds kPause{1};
constexpr milliseconds kUntilRecovered{100};
constexpr size_t kAdoptedBatch = 64;

}  // namespace

Status Spiller::Start() {
  auto thread = StartThread([this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(*thread);
  return {};
}

Spiller::~Spiller() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Spiller::Add(std::span<const PageAt> pages, bool continues_hit, TenantNumber tenant) {
  if (pages.empty()) return;
  {
    std::lock_guard lock(mutex_);
    ++batch_;
    for (const PageAt& page : pages) fresh_.push_back({page, batch_, continues_hit, tenant});
    while (fresh_.size() > kMostWaiting) {
      fresh_.pop_front();
      overtaken_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  wake_.notify_one();
}

void Spiller::AddAll() {
  pool_->ForEachReady([this](const PageInfo& page) {
    if (page.replica) return;
    std::lock_guard lock(mutex_);
    // A batch for a few of them: they lie on one drive while that keeps up.
    if (adopted_.size() % kAdoptedBatch == 0) ++batch_;
    adopted_.push_back({{page.offset, page.generation, page.key}, batch_, false});
  });
  wake_.notify_one();
}

size_t Spiller::waiting() const {
  std::lock_guard lock(mutex_);
  return fresh_.size();
}

void Spiller::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!adopted_.empty() && tier_->recovered()) {
      fresh_.insert(fresh_.end(), adopted_.begin(), adopted_.end());
      adopted_.clear();
    }
    const auto work = [this] { return stop_ || !fresh_.empty(); };
    if (adopted_.empty())
      wake_.wait(lock, work);
    else
      wake_.wait_for(lock, kUntilRecovered, work);
    if (stop_) return;
    if (fresh_.empty()) continue;
    const Fresh page = fresh_.front();
    fresh_.pop_front();
    lock.unlock();
    const bool done = Write(page);
    lock.lock();
    if (done) continue;
    fresh_.push_front(page);
    wake_.wait_for(lock, kPause, [this] { return stop_; });
  }
}

bool Spiller::Write(const Fresh& page) {
  // The pin keeps a clear from ending before the page is the tier's, which then drops it.
  const PagePin pin = pool_->HoldAt(page.at.offset, page.at.generation);
  if (!pin) {
    disk::DiskPage found;  // by another set
    tier_->Find(std::span(&page.at.key, 1), std::span(&found, 1));
    if (found.length == 0) overtaken_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  const disk::PageToPut put{.key = page.at.key,
                            .tag = pin.header().tag,
                            .checksum = pin.header().checksum,
                            .batch = page.batch,
                            .continues_hit = page.continues_hit,
                            .owner = page.tenant};
  return tier_->Put(put, pin.payload()).what != disk::PutResult::What::kLater;
}

}  // namespace peercache
