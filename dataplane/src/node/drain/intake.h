// Intake: takes over pages of nodes that leave (mover.h), as far as there is room.
//
// A page comes in as any page does: it is looked up and read as by a get, and reserved, committed
// and published as by a set. So nothing of what keeps bytes right is different
// (docs/dev/protocol.md). A page is taken when nothing has to go for it, or when the page that goes
// for it was read less often lately. One offer is at work at a time, in a thread of its own;
// whoever offers asks again until it is done, and others wait until it has asked.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/crew.h"
#include "node/batch/checksum_policy.h"
#include "node/count/counters.h"
#include "node/owner/publisher.h"
#include "node/owner/room.h"
#include "node/peer/views.h"
#include "node/read/locator.h"
#include "node/read/remote_reader.h"
#include "pool/pool.h"
#include "wire/messages.h"

namespace peercache {

struct IntakeOptions {
  Duration lease{};
  Duration peer_timeout{};  // longest to wait for a slot, or beyond what the bytes take
  Duration stall{};         // longest without progress of one exchange
  ChecksumPolicy verify = ChecksumPolicy::kSampled;
  Duration keep = milliseconds(200);  // how long what became of an offer waits to be asked for
};

class Intake {
 public:
  // `reserve`: bytes that upkeep keeps free for sets.
  Intake(IntakeOptions options, Pool* pool, Peers* peers, const Views* views, Publisher* publisher,
         Locator* locator, Room* room, std::vector<PageReader*> readers, Counters* counters,
         std::function<size_t()> reserve);
  ~Intake();

  // Begins with an offer, or says how far it is. Does not block.
  Result<OfferAnswer> Answer(const OfferRequest& offer);
  // What was read before is not committed any more: an engine clears pages.
  void Forget();
  // Takes nothing from now on: this node leaves itself.
  void Close();

 private:
  struct Incoming;
  class Leaving;

  void Run();
  std::vector<uint8_t> Take(std::span<const OfferItem> items, uint64_t epoch);
  // Gets the page's slot, or finds that the page is here already; false: there is no room.
  bool MakeRoom(const OfferItem& item, TimePoint deadline, Leaving* leaving, Incoming* in);
  void Read(std::span<const OfferItem> items, std::span<Incoming> incoming);
  // The page in the pool, to be published; empty when it could not be read, or is not to be here.
  PagePin Settle(const OfferItem& item, uint64_t epoch, Incoming* in);
  bool HasSpare(size_t length) const;

  const IntakeOptions options_;
  Pool* const pool_;
  Peers* const peers_;
  const Views* const views_;
  Publisher* const publisher_;
  Locator* const locator_;
  Room* const room_;
  Counters* const counters_;
  const std::function<size_t()> reserve_;
  Crew crew_;
  RemoteReader reader_;

  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  OfferRequest offer_;  // the last one
  bool working_ = false, closed_ = false, stop_ = false;
  std::vector<uint8_t> outcomes_;  // of offer_, when not working
  bool claimed_ = true;            // they were asked for
  TimePoint done_at_{};            // since when they are there
  uint64_t epoch_ = 0;             // of clears; a commit holds the mutex
  std::thread thread_;
};

}  // namespace peercache
