// What a tier on local drives is made with (disk_tier.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/tag.h"
#include "disk/clear_list.h"
#include "disk/io_kind.h"
#include "disk/limits.h"

namespace peercache::disk {

class IoEngine;

// A clear that the pages of a drive may have missed, and others have obeyed.
struct MissedClear {
  TagRange tags;
  uint64_t epoch = 0;
};

struct DiskOptions {
  std::vector<std::string> paths;  // a folder on each device
  uint64_t bytes = 0;              // on each of them
  std::string cluster;             // whose pages they are: a file of another one is refused
  IoKind io = IoKind::kAuto;
  uint64_t bytes_a_day = 0;             // write_budget.h, for all together; 0: unlimited
  uint64_t mean_page_bytes = 64 << 10;  // what the index is sized by; shorter pages may not fit
  LogLimits log;
  DeviceLimits device;
  uint64_t region_bytes = kRegionBytes;
  // How long to wait for a process that has the files and may be about to end; as for the pool's.
  Duration patience = std::chrono::seconds(10);
  // Set: a device that cannot be opened at the start is opened later. Asked then, with what that
  // one knows; nothing: not known yet. Called by a thread of the tier.
  std::function<std::optional<std::vector<MissedClear>>(const ClearList& known)> missed;
  Duration open_again = std::chrono::seconds(5);
  // For tests: stands an engine before that of a path.
  std::function<std::unique_ptr<IoEngine>(const std::string& path, std::unique_ptr<IoEngine>)> wrap;
};

// Fails for what can never work, whatever the drives are like.
Status CheckOptions(const DiskOptions& options);

}  // namespace peercache::disk
