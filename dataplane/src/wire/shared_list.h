// SharedList: numbers that several members say alike. Copies share them, so a thousand members that
// name the same hundred cost as much as one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace peercache {

class SharedList {
 public:
  SharedList() = default;
  // An empty list takes no memory.
  SharedList(std::vector<uint64_t> numbers)
      : numbers_(numbers.empty()
                     ? nullptr
                     : std::make_shared<const std::vector<uint64_t>>(std::move(numbers))) {}
  SharedList(std::initializer_list<uint64_t> numbers)
      : SharedList(std::vector<uint64_t>(numbers)) {}

  std::span<const uint64_t> numbers() const {
    return numbers_ ? std::span<const uint64_t>(*numbers_) : std::span<const uint64_t>{};
  }
  auto begin() const { return numbers().begin(); }
  auto end() const { return numbers().end(); }
  size_t size() const { return numbers().size(); }
  bool empty() const { return numbers_ == nullptr; }
  // Looks at all numbers.
  bool Contains(uint64_t number) const { return std::find(begin(), end(), number) != end(); }
  // The same for copies of one list; null for empty ones.
  const void* identity() const { return numbers_.get(); }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.numbers_ == b.numbers_ || std::ranges::equal(a.numbers(), b.numbers());
  }

 private:
  std::shared_ptr<const std::vector<uint64_t>> numbers_;
};

}  // namespace peercache
