// Recorder: looks at this node once a second, and keeps what the dashboard shows of the past: the
// last hour of this node and, where it hosts discovery, of all members, and what happened.
//
//   Recorder recorder({&counters, pool, fabric, peers, &views, table, machine});
//   recorder.Start();          // its thread
//   recorder.ToTell(now);      // for the next heartbeat
//
// Thread-safe. A look costs some hundred loads of atomics, and allocates; nothing here is on the
// path of an engine's call.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "membership/table.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"
#include "node/peer/views.h"
#include "node/rails/fabric.h"
#include "node/report/activity_window.h"
#include "node/report/events.h"
#include "node/report/history.h"
#include "pool/pool.h"

namespace peercache {

struct Recorded {
  const Counters* counters;
  const Pool* pool;
  const Fabric* fabric;  // null without rails
  const Peers* peers;
  const Views* views;
  Table* table;
  uint32_t machine;
};

class Recorder {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(1);
  // Between two heartbeats that say what this node did.
  static constexpr Duration kTellEvery = std::chrono::seconds(2);

  explicit Recorder(Recorded of) : of_(of) {}
  ~Recorder();
  Status Start();

  // What this node did lately; empty: nothing is known yet.
  std::optional<Activity> Latest() const;
  // The same, or empty where a heartbeat has said so lately.
  std::optional<Activity> ToTell(TimePoint now);
  std::vector<PastEvent> Past(TimePoint now) const;
  // /v1/history
  std::string HistoryJson() const;

 private:
  void Run();
  // `wall`: the same time by the wall clock.
  void Look(TimePoint now, History::Seconds wall);
  Totals Total() const;

  const Recorded of_;
  mutable std::mutex mutex_;  // all but the thread
  std::condition_variable wake_;
  bool stop_ = false;
  ActivityWindow window_;
  Events events_;
  History node_, fleet_;
  std::optional<Flow> step_from_;
  TimePoint step_began_{}, tell_at_{};
  std::thread thread_;
};

}  // namespace peercache
