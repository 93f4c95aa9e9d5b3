// HealthReport: how this node is, as its heartbeats tell the discovery hosts.
//
//   HealthReport report(group, &counters, pool, fabric);
//   MemberAgent agent(..., [&] { return report.Now(Clock::now()); });
//   report.Serve(&engines, &numa);   // once everything is started
//   report.Stop();                   // before these two go
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "node/count/counters.h"
#include "node/disk/disk_pages.h"
#include "node/engine/engine_sockets.h"
#include "node/rails/fabric.h"
#include "node/report/recorder.h"
#include "pool/numa_home.h"
#include "pool/pool.h"
#include "wire/heartbeat.h"

namespace peercache {

// Pure.
NumaHealth JudgeNuma(const NumaStats& numa);

// What two counters that only grow have gained in a window of time.
class RecentLookups {
 public:
  // `step`: between the samples that are kept, window / step of them at most.
  RecentLookups(Duration window, Duration step) : window_(window), step_(step) {}

  struct Gain {
    uint64_t looked_up = 0, delivered = 0;  // delivered <= looked_up
  };
  // The counters now; from the first call on, over at most window + step.
  Gain Note(TimePoint now, uint64_t looked_up, uint64_t delivered);

 private:
  struct Sample {
    TimePoint at;
    uint64_t looked_up, delivered;
  };
  const Duration window_, step_;
  std::deque<Sample> samples_;  // oldest first
};

Activity::Drives DrivesOf(const DiskReport& report);

class HealthReport {
 public:
  // Looking where memory is asks the kernel for each page of a sample; placement changes slowly.
  static constexpr Duration kLookAtNumaEvery = std::chrono::seconds(5);

  // `fabric` is null without rails, `disk` without drives. `recorder`: null, or says what the node
  // did.
  HealthReport(std::string group, const Counters* counters, const Pool* pool, const Fabric* fabric,
               Recorder* recorder = nullptr, const DiskPages* disk = nullptr);

  void Serve(const EngineSockets* engines, const NumaHome* numa);
  void Stop();

  MemberHealth Now(TimePoint now);

 private:
  const std::string group_;
  const Counters* const counters_;
  const Pool* const pool_;
  const Fabric* const fabric_;
  Recorder* const recorder_;
  const DiskPages* const disk_;
  std::mutex mutex_;
  RecentLookups recent_{std::chrono::seconds(60), std::chrono::seconds(10)};
  RecentLookups latest_{std::chrono::seconds(4), std::chrono::seconds(1)};
  const EngineSockets* engines_ = nullptr;  // these two: null while not serving
  const NumaHome* numa_ = nullptr;
  NumaHealth placement_ = NumaHealth::kUnknown;
  TimePoint look_at_numa_{};
};

}  // namespace peercache
