// Fetcher: brings the pages of a get from other nodes.
//
//   remembered   from where an earlier lookup has found them, while its lease lasts
//   looked up    from where the directory says that they are
//   elsewhere    from another holder, where the one that was named did not give its page
//
// A holder that has a page on disk is asked for it, and again until the page is in its pool; then
// it is read there like any other.
//
// Each brings what it can; the next is asked for the rest. A page that none brings is a miss, with
// a counted reason.
//
// For an engine that has said what computing a page costs it (GetBatch::recompute), nothing is
// waited for longer than that costs, and what is likely to take longer is not begun (worth.h).
//
// Costs: for remembered pages nothing but their reads. For others one round of messages before, to
// all shards concerned at once (locator.h). The reads of all holders run at once. Worse: each
// holder that does not give its page, and each page that is on another node's disk, takes another
// round.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "node/batch/get_batch.h"
#include "node/count/counters.h"
#include "node/count/stage_time.h"
#include "node/peer/peers.h"
#include "node/peer/views.h"
#include "node/read/locator.h"
#include "node/read/remote_reader.h"

namespace peercache {

struct FetcherOptions {
  Duration lease{};
  Duration peer_timeout{};  // longest to wait for a view
  Duration stall{};         // longest without progress of one exchange
};

class Fetcher {
 public:
  Fetcher(FetcherOptions options, const Views* views, const Peers* peers, Locator* locator,
          RemoteReader* reader, Counters* counters)
      : options_(options),
        views_(views),
        peers_(peers),
        locator_(locator),
        reader_(reader),
        counters_(counters) {}

  // Brings what it can of batch->wanted, which it leaves as it is, by `deadline`. Sets
  // batch->checksums.
  void Fetch(GetBatch* batch, TimePoint deadline);

 private:
  // A page on its way, and why it has not come yet.
  struct Sought {
    size_t page = 0;
    enum Why : uint8_t { kAbsent, kUnanswered, kStale, kUnreachable } why = kAbsent;
    Record record{};    // node 0: no place is known
    TimePoint until{};  // how long that may be used
  };
  struct Search;
  // False: nothing is remembered.
  bool Recall(Search* search) const;
  void LookUp(Search* search) const;
  // Drops pages that computing brings sooner, and sets until when those that stay are waited for.
  void Weigh(Search* search) const;
  // Reads at the places that are known. Leaves in the search what another place may have.
  void Read(Search* search) const;
  // Of pages in pools; adds to `left` what another place may have.
  void ReadPools(Search* search, std::span<const Sought> pages, std::vector<Sought>* left) const;
  // Of pages on disk.
  void ReadDisks(Search* search, std::vector<Sought> pages, std::vector<Sought>* left) const;
  // What the holders say of the pages now: of each that is `here` its place in the pool.
  void AskDisks(Search* search, std::vector<Sought>* pages, std::vector<Sought>* here,
                std::vector<Sought>* left) const;
  // Pages that Lookup has not found: nobody has them, or only nodes that it leaves out.
  void CountAbsent(const Search& search, std::span<const Key> keys) const;
  // These of one tier have not come from `start` to `until`, which is what they are worth.
  void GiveUp(std::span<const Sought> pages, Tier tier, TimePoint start, TimePoint until) const;
  // Its holder did not give the page.
  void Lose(Search* search, const Sought& sought, Sought::Why why, std::vector<Sought>* left) const;

  const FetcherOptions options_;
  const Views* const views_;
  const Peers* const peers_;
  Locator* const locator_;
  RemoteReader* const reader_;
  Counters* const counters_;
};

}  // namespace peercache
