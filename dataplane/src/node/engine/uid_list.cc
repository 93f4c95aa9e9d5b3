#include "node/engine/uid_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace peercache {

Result<UidList> UidList::Parse(const std::string& text) {
  UidList list;
  if (text == "any") return list;
  list.any_ = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    uint32_t uid = geteuid();
    if (item != "same") {
      const char* last = item.data() + item.size();
      const auto [rest, error] = std::from_chars(item.data(), last, uid);
      if (error != std::errc() || rest != last) {
        return InvalidArgument(
            fmt::format("\"{}\" is not a user; write any, or numbers and \"same\" with commas "
                        "between them, e.g. same,1000",
                        item));
      }
    }
    list.uids_.push_back(uid);
  }
  return list;
}

bool UidList::Allows(uint32_t uid) const {
  return any_ || std::find(uids_.begin(), uids_.end(), uid) != uids_.end();
}

std::string UidList::ToString() const {
  return any_ ? "any" : fmt::format("{}", fmt::join(uids_, ","));
}

}  // namespace peercache
