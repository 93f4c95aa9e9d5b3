// How the ranges of one object in one NIXL request become one page that is read or written.
//
//   - A page is written whole: the ranges of a WRITE must be all of the object, each byte once.
//   - A page is read once, whatever ranges ask for it. Each of its bytes goes to the first range
//     that wants it, and is copied from there to the others; bytes that none wants go to scratch
//     memory, which no reader needs once members can read a part of a page.
//
// Pure. Nothing here touches the memory of a range but Copied().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "peercache/libpeercache.h"

namespace peercache::nixl {

struct Range {
  uint64_t offset = 0;  // in the object
  uint64_t length = 0;
  uint64_t address = 0;  // in memory
};

struct Copy {
  uint64_t from = 0, to = 0, length = 0;  // addresses
};

struct Plan {
  std::vector<pc_iov> iovs;  // of the whole page, in its order
  std::vector<Copy> copies;  // once it is there
  std::unique_ptr<std::byte[]> scratch;

  void Copied() const;
};

// `length`: of the object; 0: what the ranges reach. Nothing: a range is empty, or ends behind the
// object, or some bytes of an object without a length are in no range.
std::optional<Plan> PlanRead(uint64_t length, std::vector<Range> ranges);
// Nothing: the ranges are not all of the object, overlap, or are more than a page has
// (PC_MAX_IOVS).
std::optional<Plan> PlanWrite(uint64_t length, std::vector<Range> ranges);

}  // namespace peercache::nixl
