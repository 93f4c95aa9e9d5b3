#include "capi/check_op.h"

#include <fmt/format.h>

#include <cstdint>

#include "wire/frame.h"
#include "wire/messages.h"

namespace peercache::capi {
namespace {

static_assert(PC_MAX_PAGES == kMaxItems && PC_MAX_IOVS == kMaxSegmentsPerPage);

const char* NameOf(uint8_t kind) {
  return kind == PC_SET ? "PC_SET" : kind == PC_GET ? "PC_GET" : "PC_PRESENCE";
}

Status MustBeZero(const char* field, uint64_t value, uint8_t kind) {
  if (value == 0) return {};
  return InvalidArgument(fmt::format("{}: must be 0 of a {}", field, NameOf(kind)));
}

Status CheckIovs(const pc_op& op) {
  if (op.iovs == nullptr)
    return InvalidArgument(fmt::format("iovs: NULL: a {} needs memory", NameOf(op.kind)));
  if (op.iovs_per_page > PC_MAX_IOVS) {
    return InvalidArgument(fmt::format("iovs_per_page: {} is more than PC_MAX_IOVS ({})",
                                       op.iovs_per_page, +PC_MAX_IOVS));
  }
  if ((op.iovs_per_page == 0) != (op.iov_counts != nullptr)) {
    return InvalidArgument(
        "iov_counts: give either iovs_per_page or iov_counts, and 0 or NULL for the other");
  }
  const pc_iov* iov = op.iovs;
  for (uint32_t page = 0; page < op.pages; ++page) {
    const uint32_t count = IovsOf(op, page);
    if (count == 0 || count > PC_MAX_IOVS) {
      return InvalidArgument(
          fmt::format("iov_counts[{}]: {} is not 1 to {}", page, count, +PC_MAX_IOVS));
    }
    uint64_t bytes = 0;  // at most kMaxSegmentsPerPage times UINT32_MAX
    for (uint32_t i = 0; i < count; ++i, ++iov) {
      uint64_t end = 0;
      if (iov->address == 0 || iov->length == 0 || iov->length > UINT32_MAX ||
          __builtin_add_overflow(iov->address, iov->length, &end)) {
        return InvalidArgument(fmt::format("iovs[{}]: {} bytes at {:#x} are no memory of a page",
                                           iov - op.iovs, iov->length, iov->address));
      }
      bytes += iov->length;
    }
    if (bytes > UINT32_MAX) {
      return InvalidArgument(
          fmt::format("iovs: page {} has {} bytes, more than {}", page, bytes, UINT32_MAX));
    }
  }
  return {};
}

Status CheckNoIovs(const pc_op& op) {
  if (op.iovs != nullptr || op.iov_counts != nullptr)
    return InvalidArgument("iovs: must be NULL of a PC_PRESENCE");
  return MustBeZero("iovs_per_page", op.iovs_per_page, op.kind);
}

}  // namespace

Status CheckOp(const pc_op& op) {
  if (op.kind != PC_SET && op.kind != PC_GET && op.kind != PC_PRESENCE)
    return InvalidArgument(fmt::format("kind: {} is none of PC_SET, PC_GET, PC_PRESENCE", op.kind));
  if (op.reserved != 0) return MustBeZero("reserved", op.reserved, op.kind);
  const unsigned allowed = op.kind == PC_SET ? 0u : unsigned{PC_UNCOUNTED};
  if ((op.flags & ~allowed) != 0)
    return InvalidArgument(
        fmt::format("flags: {:#x} has flags that no {} takes", op.flags, NameOf(op.kind)));
  if (op.pages == 0 || op.pages > PC_MAX_PAGES)
    return InvalidArgument(fmt::format("pages: {} is not 1 to {}", op.pages, +PC_MAX_PAGES));
  if (op.keys == nullptr) return InvalidArgument("keys: NULL: one for each page is needed");
  if (op.kind != PC_SET) {
    if (Status s = MustBeZero("tag", op.tag, op.kind); !s.ok()) return s;
  } else if (Status s = MustBeZero("page_tokens", op.page_tokens, op.kind); !s.ok()) {
    return s;
  }
  if (op.kind == PC_PRESENCE) return CheckNoIovs(op);
  if (Status s = MustBeZero("deadline_us", op.deadline_us, op.kind); !s.ok()) return s;
  return CheckIovs(op);
}

}  // namespace peercache::capi
