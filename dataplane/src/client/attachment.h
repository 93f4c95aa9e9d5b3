// Attachment: a client's hold on its node: the session, its connections, the memory shared in it.
//
// One thread makes the session, and makes it again whenever the node is gone: it connects,
// attaches, shares every region in the order in which they were registered, and then keeps that
// connection until it ends. So a node that comes late or comes back is found within kLookEvery of
// its socket, whether or not anybody calls, and a call without a node costs one atomic load.
//
// An attach fails in one of these ways:
//   - the socket is not a node's (IsWrong): the engine's configuration names something else;
//   - the host or the node does not let this user in;
//   - anything else, such as: starting, full, another protocol. It may be over at any moment.
// Calls are misses in each of them, and the thread goes on. Only the first makes Start() fail: an
// engine that would start without PeerCache starts with it.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/connection.h"
#include "client/regions.h"
#include "wire/messages.h"

namespace peercache {

class Attachment {
 public:
  // How often a socket where nobody listens is looked at.
  static constexpr milliseconds kLookEvery{250};

  // `fault` hears what stays wrong: refusals, and memory that a node does not take again.
  Attachment(std::string socket, std::string engine, Duration timeout,
             std::function<void(const Status&)> fault);
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Call it once, first. Waits for the answer of a node that takes the connection, and not for one
  // that is not there. Fails when the node refuses this engine.
  Status Start();

  bool attached() const { return session_.load(std::memory_order_acquire) != 0; }
  // Ok while attached, and otherwise why not.
  Status state() const;
  // The node's name and release, once attached.
  std::string node() const;
  // Whether the node of this session knows Presence; false while there is none.
  bool knows_presence() const;
  uint64_t reconnects() const { return reconnects_.load(std::memory_order_relaxed); }

  // A connection of the session for one call; kUnavailable at once when there is no session.
  Result<Connection> Acquire(TimePoint deadline);
  // Gives back a connection that is usable.
  void Release(Connection connection);
  // After a broken connection: its siblings most likely broke with it.
  void DropIdle();
  // The node has not answered in time. Calls answer misses at once, but for one now and then that
  // looks whether it answers again.
  void Stalled(const std::string& node);

  static constexpr int kNoFd = -2;  // of a region that is an address of this process
  // Shares memory, under a new id. Host memory is remembered when there is no node: it fails only
  // when a node does not take it, and is forgotten then. `ways`: of device memory, which no node
  // would be asked about later, so that it fails without one.
  Result<uint32_t> Share(int fd, Region region, Duration limit, DmaBufOk* ways = nullptr);
  void Unshare(uint32_t id);
  // The same of all regions that engines have registered within these addresses. kInvalidArgument
  // where one of them lies there in part: nothing changes then.
  Status UnshareWithin(uint64_t address, uint64_t length);
  Regions::Place Locate(std::span<const Segment> segments, std::span<WireSegment> wire) const;

 private:
  void Keep();
  Status Attach(std::optional<Connection>* life, bool* reached);
  Status ShareAll(Connection* life);
  // Waits before the next try; false when it is time to end.
  bool AfterFailure(const Status& why, bool reached);
  // Once while nobody is there, and at most once a minute of a node that does not take this engine.
  void Say(const Status& why, bool refused, bool reached);
  // The session is at its end, as far as this side is concerned.
  void Lose(uint64_t session, const Status& why);
  // Tells the node that a region has left.
  void Forget(uint32_t id);

  const std::string socket_, engine_;
  const Duration timeout_;
  const std::function<void(const Status&)> fault_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool tried_ = false;                // the first answer is there, or nobody to give one
  std::atomic<uint64_t> session_{0};  // written under the lock; 0: none
  Connection* life_ = nullptr;        // of the session that is, or is being made
  Status why_;                        // there is no session
  std::string node_;                  // of the last session
  bool knows_presence_ = false;       // its node
  std::vector<Connection> idle_;
  Regions regions_;
  uint32_t next_region_ = 1;
  TimePoint retry_at_{};
  bool stalled_ = false;  // somebody got no answer, and no connection has been made since
  std::string last_error_;
  std::atomic<uint64_t> reconnects_{0};

  // Of the thread alone.
  bool said_absent_ = false;
  std::thread thread_;
};

}  // namespace peercache
