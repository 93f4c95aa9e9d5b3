// NodeGroups: the items of a batch, grouped by the node that they concern.
//
//   NodeGroups groups;
//   for (...) groups.Add(node, index);
//   groups.ForEach([](uint64_t node, std::span<const NodeGroups::Item> items) { ... });
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace peercache {

class NodeGroups {
 public:
  struct Item {
    uint64_t node = 0;
    size_t index = 0;
  };

  void Add(uint64_t node, size_t index) { items_.push_back({node, index}); }
  bool empty() const { return items_.empty(); }

  // Groups in no particular order; the items of each in the order they were added.
  template <typename Function>
  void ForEach(const Function& function) {
    std::stable_sort(items_.begin(), items_.end(),
                     [](const Item& a, const Item& b) { return a.node < b.node; });
    for (size_t begin = 0, end = 0; begin < items_.size(); begin = end) {
      while (end < items_.size() && items_[end].node == items_[begin].node) ++end;
      function(items_[begin].node, std::span<const Item>(items_).subspan(begin, end - begin));
    }
  }

 private:
  std::vector<Item> items_;
};

}  // namespace peercache
