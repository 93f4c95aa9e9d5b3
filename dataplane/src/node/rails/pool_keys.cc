#include "node/rails/pool_keys.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace peercache {
namespace {

// Several times within the spread, in which the new keys have to be there.
constexpr int kLooks = 8;
constexpr Duration kMostBetween = std::chrono::seconds(1);

bool Share(const std::set<uint64_t>& a, const std::set<uint64_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](uint64_t id) { return b.contains(id); });
}

}  // namespace

PoolKeys::PoolKeys(const rdma::Rails* rails, rdma::RegisteredMemory* registered, uint64_t pool,
                   const Secret* secret)
    : rails_(rails), registered_(registered), pool_(pool), secret_(secret) {
  if (secret_->none()) return;
  tokens_ = secret_->Accepted(Clock::now());
  thread_ = std::thread([this] { Run(); });
}

PoolKeys::~PoolKeys() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PoolKeys::Follow(TimePoint now) {
  std::lock_guard lock(following_);
  const auto accepted = secret_->Accepted(now);
  if (former_ && !Share(accepted, former_tokens_)) {
    former_.reset();
    spdlog::info("the pool's previous keys for RDMA have ended with their token");
  }
  // One more set of keys would count against the limit of locked memory: one after the other.
  if (former_ || std::includes(tokens_.begin(), tokens_.end(), accepted.begin(), accepted.end()))
    return;
  if (Status s = registered_->Rekey(*rails_, pool_, &former_); !s.ok()) {
    spdlog::warn(
        "the token is a new one, but the pool keeps the keys by which peers read it over RDMA, "
        "until the node restarts: {}",
        s.message());
  }
  former_tokens_ = std::move(tokens_);
  tokens_ = accepted;
  since_ = Clock::now();
}

void PoolKeys::Run() {
  const Duration every = std::min(secret_->spread() / kLooks, kMostBetween);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    stopping_.wait_for(lock, every);
    if (stop_) return;
    lock.unlock();
    Follow(Clock::now());
    lock.lock();
  }
}

}  // namespace peercache
