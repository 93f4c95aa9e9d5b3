#include "client/staging.h"

#include <algorithm>

#include "base/divide.h"

namespace peercache {
namespace {

// At least one page.
size_t RoundUp(size_t bytes) {
  const size_t page = SmallPageSize();
  return std::max<size_t>(DivideUp(bytes, page), 1) * page;
}

}  // namespace

Staging::Staging(size_t total_bytes, Share share, Unshare unshare)
    : lane_bytes_(RoundUp(total_bytes / kLanes)),
      share_(std::move(share)),
      unshare_(std::move(unshare)) {}

Result<std::unique_ptr<Staging::Lane>> Staging::Make(size_t bytes) {
  auto memory = MappedRegion::Create("peercache-staging", RoundUp(std::max(bytes, lane_bytes_)),
                                     HugePages::kOff);
  if (!memory.ok()) return memory.status();
  auto region = share_(*memory);
  if (!region.ok()) return region.status();
  return std::make_unique<Lane>(Lane{std::move(*memory), *region});
}

Result<Staging::Loan> Staging::Borrow(size_t bytes) {
  std::unique_ptr<Lane> lane;
  {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return out_ < kLanes; });
    ++out_;
    if (!idle_.empty()) {
      lane = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (lane && lane->memory.size() < bytes) {
    unshare_(lane->region);
    lane.reset();
  }
  if (!lane) {
    auto made = Make(bytes);
    if (!made.ok()) {
      Return(nullptr);
      return made.status().Annotate("staging ring");
    }
    lane = std::move(*made);
  }
  return Loan(this, std::move(lane));
}

void Staging::Return(std::unique_ptr<Lane> lane) {
  {
    std::lock_guard lock(mutex_);
    --out_;
    if (lane) idle_.push_back(std::move(lane));
  }
  returned_.notify_one();
}

Staging::Loan::~Loan() {
  if (lane_) staging_->Return(std::move(lane_));
}

void Staging::Loan::Discard() {
  staging_->unshare_(lane_->region);
  lane_.reset();
  staging_->Return(nullptr);
}

}  // namespace peercache
