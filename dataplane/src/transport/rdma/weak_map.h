// WeakMap: values by key, for as long as somebody else holds them. Finding one costs a hash and a
// comparison, however many there are. Those that are gone are swept out once a second at most.
//
// Used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/clock.h"

namespace peercache::rdma {

template <typename Key, typename Value, typename Hash>
class WeakMap {
 public:
  // Null: there is none, or nobody holds it any more.
  std::shared_ptr<Value> Find(const Key& key, TimePoint now) {
    if (now - swept_ >= kSweepEvery) {
      swept_ = now;
      std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
    }
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : found->second.lock();
  }
  void Put(const Key& key, const std::shared_ptr<Value>& value) {
    values_.insert_or_assign(key, value);
  }
  size_t size() const { return values_.size(); }

 private:
  static constexpr Duration kSweepEvery = std::chrono::seconds(1);
  std::unordered_map<Key, std::weak_ptr<Value>, Hash> values_;
  TimePoint swept_{};
};

}  // namespace peercache::rdma
