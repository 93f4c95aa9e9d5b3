// Lease: for how long a record may be used, and what it names be relied on, from when it was asked
// for.
//
// A holder keeps a slot as it is for a padded lease of its own after the record was withdrawn
// (Fence::ReuseAfter), and says in the record how long that is. A reader goes by the shorter of
// that and of its own: while a configuration changes, nodes do not agree.
//
// This is where the lease is computed; it is enforced where bytes become a page of a get: by each
// PageReader (node/batch/page_reader.h) against RemotePage::until or from when it asked the holder.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "wire/record.h"

namespace peercache {

class Lease {
 public:
  // The lease of a reader that allows itself `own`.
  Lease(Duration own, const Record& record)
      : length_(std::min<Duration>(own, milliseconds(record.lease_ms))) {}

  Duration length() const { return length_; }
  // Counted from the question, not from the answer: the answer may have been under way for long.
  TimePoint EndsAfter(TimePoint asked) const { return asked + length_; }
  // `at`: read after the last byte came.
  bool Covers(TimePoint asked, TimePoint at) const { return at - asked < length_; }

  // As records and stamps carry it. Longer than the field holds is longer than any configuration
  // allows.
  static constexpr uint16_t OnTheWire(milliseconds lease) {
    return static_cast<uint16_t>(std::clamp<int64_t>(lease.count(), 0, UINT16_MAX));
  }

 private:
  Duration length_;
};

}  // namespace peercache
