// Activity: what a member's engines have got, and from where, in about the last ten seconds. It
// travels in heartbeats (wire/heartbeat.h); a discovery host adds it up for people. Nothing is
// decided by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wire/frame.h"

namespace peercache {

// What was counted in a span of time, of one member or of many together. Sums that do not fit stay
// at the largest number.
struct Flow {
  // Places for what releases count; the names are node/report/flow.h's. On the wire, places at the
  // end that are 0 are left out.
  static constexpr size_t kMostTiers = 16;
  static constexpr size_t kMostReasons = 16;
  static constexpr size_t kBuckets = 21;  // of node/count/latency.h

  uint64_t looked_up = 0;                        // pages
  std::array<uint64_t, kMostTiers> delivered{};  // pages, by where they were found
  std::array<uint64_t, kMostReasons> missed{};   // pages, by why
  uint64_t read_bytes = 0, written_bytes = 0;    // of the member's own engines
  uint64_t served_bytes = 0;                     // read by other members
  uint64_t evicted = 0;                          // pages
  // Calls of engines by the time that they took.
  std::array<uint64_t, kBuckets> gets{}, sets{};

  uint64_t delivered_pages() const;
  void Add(const Flow& other);
  bool operator==(const Flow&) const = default;
};

struct Activity {
  // The busiest ones; the rest is in the sums only.
  static constexpr size_t kMostSources = 8;
  static constexpr size_t kMostRails = 8;
  static constexpr uint32_t kLongestMilliseconds = 60'000;

  struct Source {
    uint64_t node = 0;  // NodeHash of the member whose pages were read
    uint64_t bytes = 0;
    bool operator==(const Source&) const = default;
  };
  struct Rail {
    std::string name;  // at most kMaxRailNameBytes
    bool up = false;
    uint64_t bytes = 0;  // read over it
    bool operator==(const Rail&) const = default;
  };

  // Of disk-path, as they are now.
  struct Drives {
    uint8_t total = 0, on = 0;
    uint8_t recovering = 0;                       // of those that are on
    uint64_t used_bytes = 0, capacity_bytes = 0;  // of those that are on
    // What all may be written in a day, and how much of that is left; 0, 0: without limit.
    uint64_t budget_bytes = 0, budget_left_bytes = 0;
    std::string off;  // the folder of one that is not; at most kMaxDriveBytes
    bool operator==(const Drives&) const = default;
  };
  static constexpr size_t kMaxDriveBytes = 256;

  uint32_t milliseconds = 0;  // the span; above 0
  uint32_t machine = 0;       // base/machine.h; 0: not known
  Flow flow;
  std::vector<Source> sources;  // the most bytes first
  std::vector<Rail> rails;      // in the node's order
  Drives drives;

  // Less than two KiB. Drives, if there are any, are at the end, where older releases have nothing.
  void Encode(FrameWriter* w, bool with_drives = true) const;
  // False: no activity can be like that.
  bool Decode(FrameReader* r);
  bool operator==(const Activity&) const = default;
};

}  // namespace peercache
