#include "node/read/warmer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "node/batch/node_groups.h"
#include "wire/messages.h"

namespace peercache {

Warmer::Warmer(const Peers* peers, Duration stall) : peers_(peers), stall_(stall) {
  auto thread = StartThread([this] { Run(); });
  if (thread.ok())
    thread_ = std::move(*thread);
  else
    spdlog::warn("an exists has no other node bring pages from its disk: {}",
                 thread.status().message());
}

Warmer::~Warmer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Warmer::Want(std::span<const OnDisk> pages) {
  if (pages.empty() || !thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    const size_t count = std::min(pages.size(), kMostWaiting - waiting_.size());
    waiting_.insert(waiting_.end(), pages.begin(),
                    pages.begin() + static_cast<std::ptrdiff_t>(count));
  }
  wake_.notify_one();
}

void Warmer::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::vector<OnDisk> pages = std::exchange(waiting_, {});
    lock.unlock();
    Ask(pages);
    lock.lock();
  }
}

void Warmer::Ask(std::span<const OnDisk> pages) const {
  NodeGroups groups;
  for (size_t i = 0; i < pages.size(); ++i) groups.Add(pages[i].node, i);
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  groups.ForEach([&](uint64_t node, std::span<const NodeGroups::Item> items) {
    const PeerRef peer = peers_->Find(node);
    if (peer == nullptr) return;
    std::vector<Key> keys;
    keys.reserve(items.size());
    for (const auto& item : items) keys.push_back(pages[item.index].key);
    EncodeKeys(keys, &calls.Add(peer, MessageType::kFetch).request);
  });
  if (!calls.empty()) calls.Run(MessageType::kFetchOk, {stall_, Clock::now() + stall_});
}

}  // namespace peercache
