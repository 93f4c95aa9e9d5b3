// RemotePage: a page that another node holds, on its way into a destination here; what becomes of
// it is a ReadOutcome.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/key.h"
#include "wire/record.h"

namespace peercache {

struct RemotePage {
  Key key;
  Record record;
  size_t page = 0;    // index in the destinations
  TimePoint until{};  // how long the record may be used
};

enum class ReadOutcome : uint8_t {
  kUnreachable = 0,  // no answer, or none in time
  kRead,             // over TCP
  kReadByRdma,
  kReadMapped,  // from the holder's pool, which is mapped here
  kStale,       // the holder has the page no more
  kExpired,     // it came too late to be trusted
  kCorrupt,     // its checksum is wrong
};

inline bool Arrived(ReadOutcome outcome) {
  return outcome == ReadOutcome::kRead || outcome == ReadOutcome::kReadByRdma ||
         outcome == ReadOutcome::kReadMapped;
}

}  // namespace peercache
