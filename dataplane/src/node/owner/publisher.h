// Publisher: keeps the directory true about the pages of this node.
//
//   Publish    after a set: the records reach their owners before the set is answered
//   Withdraw   before an eviction: tells since when no reader can hold a valid record any more
//   KeepAlive  proves to every shard that this node lives, so that it serves this node's records
//   Repair     after changes of the membership, failures, or refusals of shards that were full:
//              publishes records that are missing, withdraws those in the wrong place, and says
//              when a pending change is prepared for. In steps: what else the directory has to
//              hear has its turn between them
//
// Order matters for safety: a page's shard is noted in its PublishedTo before the record is sent; a
// page is pinned while any of its records is in flight, so it cannot be withdrawn at the same time;
// a message without answer ends its epoch (directory/fence.h), so it cannot take effect later.
//
// Publish and Withdraw may be called from many threads, a page by one at a time; KeepAlive and
// Repair from one.
#pragma once

#include <atomic>
#include <compare>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "directory/shard.h"
#include "node/clear/clears.h"
#include "node/count/counters.h"
#include "node/owner/holdings.h"
#include "node/owner/offers.h"
#include "node/peer/peers.h"
#include "node/peer/views.h"
#include "pool/pool.h"

namespace peercache {

struct PublisherOptions {
  uint64_t incarnation = 0;
  milliseconds lease{};
  Duration peer_timeout{};
  Duration stall{};
  Duration keepalive = milliseconds(500);  // well below the shards' owner_ttl
  // Pages that a step of a pass looks at, unless it has a batch to put right before.
  size_t repair_step = size_t{64} << 10;
  // After which records that a shard has not taken are offered to it again; longer each time.
  Duration offer_again = std::chrono::seconds(10);
};

class Publisher {
 public:
  // `disk`: null without that tier.
  Publisher(PublisherOptions options, Shard* shard, Holdings* pool, Peers* peers,
            const Views* views, Counters* counters, Clears* clears = nullptr,
            Holdings* disk = nullptr);

  // Of a page of the pool.
  Record RecordOf(const PagePin& pin) const;
  HeldPage Held(PagePin pin) const;
  // A tier's part of a record, as this node's, for its lease.
  Record Signed(Record of_tier) const;
  // ok[i] = 1 when every owner of the record, in a view that is still current, has acknowledged it.
  // Acknowledged are also replicas and pages on disk that a full shard has no room for: they are of
  // use to this node's engines, and are offered to it again by and by.
  // A shard that makes no progress is given up after `stall`, counted from when it is asked: the
  // part of this node's own shard takes no time from the others. Nobody is asked after `deadline`.
  void Publish(std::span<const HeldPage> pages, std::span<uint8_t> ok, TimePoint deadline);
  // reuse_at[i]: from then on no reader uses a record of victims[i].
  void Withdraw(std::span<const Victim> victims, std::span<TimePoint> reuse_at);
  void KeepAlive();
  // For callers that come often, or that keep their thread for long.
  void KeepAliveIfDue();
  // A step of a pass over the holdings if anything asks for one. True when every page is where the
  // given view wants it.
  bool Repair(const View& view);
  // A pass goes on with the next call of Repair.
  bool repairing() const { return pass_.has_value(); }
  // All pages are to be looked at, also those that the present pass has passed.
  void RepairAgain();
  // Pages that the present pass has yet to check, or that the last one could not put right; 0 when
  // every page is where the ring wants it.
  uint64_t backlog() const { return backlog_.load(std::memory_order_relaxed); }
  // Voids every record of this node on all shards, before it goes away; nothing is published from
  // then on. Not while another thread keeps the directory.
  void DisownAll();

 private:
  struct Targets {
    uint64_t nodes[2];
    int count;
  };
  Targets TargetsOf(const View& view, const Key& key) const;
  OwnerStamp SelfStamp() const;
  Holdings* Of(Tier tier) const { return tier == Tier::kDisk ? disk_ : pool_; }
  uint64_t HeldPages() const { return pool_->pages() + (disk_ == nullptr ? 0 : disk_->pages()); }
  // Notes at the pages that they are published to a shard, before they are; what to send there.
  std::vector<PublishItem> Note(std::span<const HeldPage> pages, std::span<const size_t> which,
                                uint16_t peer);
  bool PublishToSelf(std::span<const HeldPage> pages, std::span<const size_t> which,
                     std::span<uint8_t> outcomes);
  // refused: how many need not be served and found no room, by the shard's node.
  void PublishToPeers(std::span<const HeldPage> pages,
                      const std::unordered_map<uint64_t, std::vector<size_t>>& groups,
                      std::span<uint8_t> failed, TimePoint deadline,
                      std::unordered_map<uint64_t, size_t>* refused = nullptr);
  // Decodes the answer and ends the owner message; true when it counts.
  template <typename Answer>  // ShardAnswer or WithdrawAnswer
  static bool End(const PeerCall& call, const OwnerStamp& sent, Answer* answer, TimePoint now);
  // True when all have acknowledged.
  bool Contact(std::span<const PeerRef> peers, const GroupLimits& limits);
  // A place in the holdings, in which a pass goes round: the pool's pages, then those on disk.
  struct Place {
    bool on_disk = false;
    uint64_t at = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Pass {
    uint64_t epoch = 0;  // of the view
    bool grace_over = false;
    std::unordered_map<PeerRef, uint64_t> resync;  // peer -> epoch at the start
    Place began;                                   // where it ends, too
    bool turned = false;                           // it has been at the beginning since
    uint64_t unseen = 0, batches = 0, failed = 0;
  };
  // Pages that are not where they should be, with what is to be done about them.
  struct Misplaced {
    std::vector<HeldPage> pages;  // of one tier
    std::unordered_map<uint64_t, std::vector<size_t>> publish;
    std::unordered_map<uint16_t, std::vector<size_t>> withdraw;
    uint64_t bytes = 0;
  };
  // False: nothing asks for a pass.
  bool BeginPass(const View& view);
  void Step(const View& view);
  void Check(const View& view, Holdings* holdings, const NotedPage& page, Misplaced* misplaced);
  bool PassEnded() const { return pass_->turned && place_ >= pass_->began; }
  bool EndPass();
  void PutRight(Misplaced* misplaced);
  // Returns how many of the pages are not in place now.
  size_t FlushRepair(const Misplaced& misplaced);
  // Removes the note that the shard has a record of the page, which the caller holds. False when
  // somebody else does too.
  bool Unnote(Holdings* holdings, const PageAt& page, uint16_t index);
  // Takes that back, as the shard may serve the record `until`.
  void NoteAgain(Holdings* holdings, const PageAt& page, uint16_t index, TimePoint until);
  // Removes a note of a peer that has been dropped (Peers::ForgetGone).
  void ForgetVoid(Holdings* holdings, const PageAt& page, uint16_t index);
  // Removes the note if the peer, which has left the view, cannot serve the page any more.
  void ForgetGone(Holdings* holdings, const PageAt& page, const PeerRef& peer, TimePoint now);
  GroupLimits Limits(TimePoint now) const;

  const PublisherOptions options_;
  Shard* const shard_;
  Holdings* const pool_;
  Holdings* const disk_;
  Peers* const peers_;
  const Views* const views_;
  Counters* const counters_;
  Clears* const clears_;  // is told what peers know; null: nobody is
  std::atomic<uint64_t> backlog_{0};
  std::atomic<bool> disowned_{false};
  std::optional<Pass> pass_;
  Place place_;                  // where it goes on, or the next one begins
  uint64_t repaired_epoch_ = 0;  // of the last view that a complete pass was made for
  bool repaired_after_grace_ = false;
  TimePoint kept_alive_{};
  // Indexes of peers that repair has withdrawn from while a note had to stay. It does not say that
  // a record is there, so in another ring they are told of everything again.
  std::unordered_set<uint16_t> noted_only_;
  TimePoint forget_at_ = TimePoint::max();  // when a note that had to stay may be removed
  Offers offers_;
  // Shards that refused all pages on disk of a message in this pass: they hear of no more of them.
  std::unordered_set<uint64_t> full_;
};

}  // namespace peercache
