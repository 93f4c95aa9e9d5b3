// Rail: one port of an RDMA device, which memory is registered with and queue pairs are made on. A
// rail lives while the node does; whether it may be used now, and as whom it speaks, is state(): a
// rail whose port is down, or whose interface has no address, waits for it, and so does one whose
// device has failed. That one is opened anew when it is back, and what was registered is again.
//
// Rails: all rails of a node, and a thread that follows their asynchronous events: ports that go
// down and come back, addresses that come and go, devices that fail.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "transport/peer_health.h"
#include "transport/rdma/budget.h"
#include "transport/rdma/device_context.h"
#include "transport/rdma/link_options.h"
#include "transport/rdma/peer_classes.h"
#include "transport/rdma/rail_address.h"
#include "transport/rdma/rail_state.h"
#include "transport/rdma/remains.h"
#include "transport/rdma/verbs.h"
#include "transport/rdma/worker.h"
#include "wire/fabric.h"

namespace peercache::rdma {

// Which port; chosen by whoever looked at the devices (find_rails.h).
struct RailSpec {
  std::string name;    // as in configuration, metrics and log: "mlx5_0:1"
  std::string device;  // "mlx5_0"
  uint8_t port = 1;
  GidPreference gid;    // which of its addresses it speaks with
  int numa_node = -1;   // -1: not known
  uint32_t queues = 1;  // that its port needs towards a peer
  Status usable;        // when it was found; why not, and the remedy
};

class Rail {
 public:
  static Result<std::unique_ptr<Rail>> Open(RailSpec spec, LinkOptions link);

  const RailSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  // Queue pairs towards one peer.
  uint32_t queues() const { return spec_.queues; }
  const LinkOptions& link() const { return link_; }
  const Verbs& verbs() const { return *verbs_; }
  // Null while there is none. Whatever is made from it holds it.
  std::shared_ptr<const DeviceContext> device() const;
  // Bytes, of the device, or of the last one while there is none.
  uint64_t max_mr_size() const { return max_mr_size_; }
  const RailState& state() const { return state_; }
  bool up() const { return state_.up(); }
  // Whether what is registered with that device of this rail is paged in on demand, not locked.
  bool PagesOnDemand(const DeviceContext& device) const {
    return link_.on_demand_paging && device.on_demand_paging.ok();
  }
  // Whether memory is registered so that devices may write it in any order (memory.cc): as asked
  // for, and as far as this libibverbs has it.
  bool OrdersRelaxed() const { return link_.relaxed_ordering && verbs_->reg_mr_iova2 != nullptr; }
  // For people: "relaxed", "strict", or that it is strict although relaxed was asked for, and why.
  std::string ordering() const;
  // Memory was registered in strict order, because the driver refuses the relaxed one.
  void NoteStrict(bool dma_buf) const {
    (dma_buf ? strict_dma_bufs_ : strict_memory_).store(true, std::memory_order_relaxed);
  }
  // For people: "locked", "on demand", or that it is locked although paging was asked for, and why.
  std::string memory() const;
  // Connects queue pairs. Connecting one looks up where the peer's address leads, and for an
  // address that nobody answers to the kernel waits about a second: neither calls nor the threads
  // that serve peers wait for it.
  Worker& connector() { return connector_; }
  // Of all that this node has under way over it.
  RailBudget& budget() { return budget_; }
  // Soon destroyed, in a thread of its own. Destroying a queue pair waits until the device and the
  // network below it have let go of its packets, which takes seconds where a path has died. Giving
  // up a registration unlocks its memory, page by page.
  void Dispose(Remains remains);

  struct Stats {
    uint64_t reads = 0, bytes = 0;  // READs that this node asked for, and their bytes
    uint64_t failures = 0;          // queue pairs that broke
    uint64_t downs = 0;             // RailState::downs
    uint64_t device_failures = 0;
    uint64_t address_changes = 0;
  };
  Stats stats() const;
  void CountReads(uint64_t reads, uint64_t bytes, TimePoint now) {
    reads_.fetch_add(reads, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    brought_at_.store(now, std::memory_order_relaxed);
  }
  // All bytes that READs have brought over it, and when they last brought any.
  uint64_t brought() const { return bytes_.load(std::memory_order_relaxed); }
  TimePoint brought_at() const { return brought_at_.load(std::memory_order_relaxed); }
  void CountFailure() { failures_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend class Rails;
  friend class RailTesting;
  // Brings all that is registered in line with the rail's device.
  using Follow = std::function<Status()>;
  Rail(RailSpec spec, LinkOptions link, const Verbs* verbs);
  // Takes the events that are waiting, and looks what came of them.
  void OnEvents(const DeviceContext& device);
  // Looks whether the port still is what it was, or whether the device is back.
  void Check();
  void Look();
  RailLook Seen(const DeviceContext& device) const;
  // The port is active and has its address, or is not and lacks what it lacked, as far as asking
  // the device tells.
  bool Unchanged(const DeviceContext& device) const;
  // Gives the device up.
  void Fail(const std::string& why);
  // In the connector's thread, which a rail without a device leaves alone.
  Status Reopen();
  void Take(std::shared_ptr<DeviceContext> device);
  Status DoFollow();

  const RailSpec spec_;
  const LinkOptions link_;
  const Verbs* const verbs_;
  RailBudget budget_;
  mutable std::mutex mutex_;
  std::shared_ptr<DeviceContext> device_;
  Follow follow_;
  RailState state_;
  // Of the thread that watches.
  TimePoint looked_{}, opened_ = Clock::now();
  PeerHealth health_;  // of the device: when to open it anew
  std::future<Status> reopened_;
  std::atomic<uint64_t> max_mr_size_{UINT64_MAX};
  std::atomic<uint64_t> reads_{0}, bytes_{0}, failures_{0}, device_failures_{0};
  std::atomic<TimePoint> brought_at_{TimePoint{}};
  mutable std::atomic<bool> strict_memory_{false}, strict_dma_bufs_{false};
  // Of each rail, so that those of a dead one do not hold up the others'. Last: what they connect
  // and destroy was made from the above; and what is connected in vain is destroyed.
  Worker disposer_;
  Worker connector_;
};

class Rails {
 public:
  // Opens all, the first kMaxRails; fails with the first that cannot be opened. Where their queue
  // pairs are more than one link has, each has fewer.
  static Result<std::unique_ptr<Rails>> Open(std::span<const RailSpec> specs, LinkOptions link);
  ~Rails();

  std::span<const std::unique_ptr<Rail>> all() const { return rails_; }
  size_t size() const { return rails_.size(); }
  Rail& operator[](size_t i) const { return *rails_[i]; }
  bool any_up() const;
  // Of a link over all of them.
  uint32_t queues() const;
  // Of the links over them, at either end.
  PeerClasses& classes() const { return classes_; }
  // How many lock what is registered with them: their devices do not page on demand.
  size_t locking() const;
  // Until all that was to be connected so far is, and all queue pairs that were given up are gone.
  void Drain() const;

  // Called with the number of a rail that has lost its device, or has another: what is registered
  // has to follow, and the rail is used when this has not failed. Until Stop().
  void OnDeviceChange(const std::function<Status(size_t)>& follow);
  // Follows no events any more, and registers nothing more.
  void Stop();
  bool stopping() const { return stopping_; }

 private:
  explicit Rails(std::vector<std::unique_ptr<Rail>> rails);
  void Watch();
  const std::vector<std::unique_ptr<Rail>> rails_;
  mutable PeerClasses classes_;
  std::atomic<bool> stopping_{false};
  UniqueFd stop_;  // eventfd
  std::thread watcher_;
};

}  // namespace peercache::rdma
