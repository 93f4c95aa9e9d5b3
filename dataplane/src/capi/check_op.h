// What an op of libpeercache.h must be before it is taken.
//
// Pure. Reads the lists that the op names, and none of the memory that its iovs name.
#pragma once

#include "base/status.h"
#include "peercache/libpeercache.h"

namespace peercache::capi {

// kInvalidArgument: "FIELD: VALUE ...", with what it may be.
Status CheckOp(const pc_op& op);

// Of a page.
inline uint32_t IovsOf(const pc_op& op, uint32_t page) {
  return op.iovs_per_page != 0 ? op.iovs_per_page : op.iov_counts[page];
}

}  // namespace peercache::capi
