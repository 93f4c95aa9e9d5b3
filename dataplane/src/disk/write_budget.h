// WriteBudget: what may be written to disk, so that drives last. Pure; the caller gives the time.
//
// `disk-write-budget` is in drive writes a day, i.e. how often disk-size may be written in 24 h, or
// in bytes a day. The budget flows in evenly and is kept for a day at most. While more than an
// hour's share is left, all pages are written. Below that, only a share of the Set batches is, the
// less the less is left: whole batches, chosen by a hash of their number, because a missing page
// cuts a prefix. A batch that continues a hit, so that its prefix is known to be asked for again,
// is written for as long as anything is left. A new process begins with one hour's share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace peercache::disk {

// Bytes a day; 0: unlimited. "1", "0.3": drive writes of `disk_bytes`; "500Gi"; "unlimited".
Result<uint64_t> ParseWriteBudget(std::string_view text, uint64_t disk_bytes);

class WriteBudget {
 public:
  // `bytes_a_day` 0: unlimited.
  WriteBudget(uint64_t bytes_a_day, TimePoint now);

  // Whether pages of this batch are to be written now. Within a minute the same batch gets the same
  // answer, unless nothing is left.
  bool Admits(uint64_t batch, bool continues_hit, TimePoint now);
  // Of whatever is written, also contents blocks and pages that are written again.
  void Spend(uint64_t bytes, TimePoint now);
  // Bytes; negative: overdrawn by what was under way.
  double Left(TimePoint now);
  bool unlimited() const { return a_second_ == 0; }

 private:
  const double a_second_;
  double left_;
  TimePoint at_;
  double share_ = 0;  // of the batches; above 1: all
  TimePoint share_until_{};
};

}  // namespace peercache::disk
