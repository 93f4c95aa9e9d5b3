#include "node/disk/spiller.h"

#include <utility>
#include <vector>

#include "base/thread.h"

namespace peercache {
namespace {

// A third of what a write buffer takes at the write rate.
constexpr milliseconds kPause{1};
constexpr milliseconds kUntilRecovered{100}, kUntilBack{1000};
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
  {
    std::lock_guard lock(mutex_);
    AdoptAll();
  }
  wake_.notify_one();
}

void Spiller::AdoptAll() {
  adopts_ = true;
  adopts_at_ = 0;
  adopts_until_ = tier_->sequence()->Next();
}

void Spiller::TakeAdopted() {
  std::vector<PageInfo> pages;
  adopts_ = pool_->NextReady(&adopts_at_, &pages);
  for (const PageInfo& page : pages) {
    if (page.replica || page.generation > adopts_until_) continue;
    // A batch for a few of them: they lie on one drive while that keeps up.
    if (adopted_.size() % kAdoptedBatch == 0) ++batch_;
    adopted_.push_back({{page.offset, page.generation, page.key}, batch_, false});
  }
}

size_t Spiller::waiting() const {
  std::lock_guard lock(mutex_);
  return adopted_.size() + fresh_.size();
}

void Spiller::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stop_) return;
    if (const uint64_t rejoins = tier_->rejoins(); rejoins != rejoins_) {
      rejoins_ = rejoins;
      AdoptAll();
    }
    if (adopts_ && adopted_.empty() && tier_->recovered()) {
      TakeAdopted();
      continue;
    }
    std::deque<Fresh>& oldest = adopted_.empty() ? fresh_ : adopted_;
    if (oldest.empty()) {
      // Now and then it looks whether a drive has been read in, or is back.
      const bool adopts = adopts_;
      wake_.wait_for(lock, adopts ? kUntilRecovered : kUntilBack,
                     [&] { return stop_ || !fresh_.empty() || adopts_ != adopts; });
      continue;
    }
    const Fresh page = oldest.front();
    oldest.pop_front();
    lock.unlock();
    const bool done = Write(page);
    lock.lock();
    if (done) continue;
    oldest.push_front(page);
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
