// EarlyChecks: the pages of a round of READs whose checksums are compared while others are still on
// their way, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "node/batch/page_checks.h"
#include "transport/rdma/read_channel.h"

namespace peercache {

class EarlyChecks {
 public:
  // Larger ones take longer to look at than what is under way takes to come, and the rails would be
  // idle: 1 MiB takes some 90 us. Their turn comes after the round, in several threads.
  static constexpr uint32_t kLargest = 1 << 20;

  // Null: nothing is looked at.
  explicit EarlyChecks(PageChecks* checks) : checks_(checks) {}
  // `state` is that of its READs.
  void Add(size_t page, uint32_t length, const rdma::PageState* state) {
    if (checks_ != nullptr && length <= kLargest && checks_->Wants(page))
      waiting_.emplace_back(page, state);
  }
  // Looks at one that has come. False: there is none.
  bool CheckOne() {
    for (auto& [page, state] : waiting_) {
      if (*state != rdma::PageState::kRead) continue;
      checks_->Check(page);
      std::swap(waiting_.back().first, page);
      std::swap(waiting_.back().second, state);
      waiting_.pop_back();
      return true;
    }
    return false;
  }

 private:
  PageChecks* const checks_;
  std::vector<std::pair<size_t, const rdma::PageState*>> waiting_;
};

}  // namespace peercache
