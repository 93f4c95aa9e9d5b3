// UidList: the users whose processes may attach as engines (--socket-uids).
//
//   any          whoever can open the socket: its mode and its directory decide (the default)
//   same,1000    the node's own user and user 1000; "same" and numbers, separated by commas
//
// Users are as the node's user namespace sees them: a user that has no number in it appears as the
// overflow user, 65534.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace peercache {

class UidList {
 public:
  UidList() = default;  // any
  static Result<UidList> Parse(const std::string& text);

  bool Allows(uint32_t uid) const;
  // As Parse takes it, with "same" as a number.
  std::string ToString() const;

 private:
  bool any_ = true;
  std::vector<uint32_t> uids_;
};

}  // namespace peercache
