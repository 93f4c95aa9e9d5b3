// A fetch makes up to three tries. Each finds places for the pages that are left, reads from all
// holders at once, and keeps the pages that did not come for the next one:
//   1. places that are remembered (Recall): no message
//   2. places that the homes name now
//   3. the same once more, without the nodes that failed in the second try (Search::failed)
// Search::sought has the pages that are left, each with the reason why. Every page ends in exactly
// one counter: a source, or a reason of a miss.
// The lease of a place begins before the message that asked for it was sent. Readers get its end
// and drop what comes later.
//
// Pages on the drive of a holder: the holder is asked (Fetch), brings them into its pool, and
// answers with their places. This side asks again after 0.25 ms, then after twice as long, up to 4
// ms; pages that are there are read meanwhile. It stops when a quarter of the time is left.
//
// Benefits: one round of messages in the usual case, none for places that are remembered; a holder
// that dies or evicts costs one more round instead of a miss.
// Costs: a second lookup for each batch that meets such a holder.
//
// Rejected:
// - more tries: when two holders have failed, the directory and the members disagree, and a miss is
//   cheaper than to wait;
// - the other holders that the second try has learned of: the third lookup is newer, and a holder
//   of before may have evicted the page as well;
// - a holder that sends pages when its drive has them: it would keep state for each reader, and
//   write when the reader no longer waits.
#include "node/read/fetcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "directory/lease.h"
#include "node/batch/node_groups.h"
#include "node/read/worth.h"
#include "wire/messages.h"

namespace peercache {
namespace {

// Between two questions whether pages have come from disk: a page of a fast drive takes 0.1 ms, one
// of a slow one 10.
constexpr Duration kFirstGap = std::chrono::microseconds(250);
constexpr Duration kLongestGap = milliseconds(4);

PageSource SourceOf(ReadOutcome outcome) {
  switch (outcome) {
    case ReadOutcome::kReadByRdma: return PageSource::kRdma;
    case ReadOutcome::kReadMapped: return PageSource::kMapped;
    default: return PageSource::kTcp;
  }
}

// Bytes by holder, of which a batch has few. ForEach costs one look-up among the peers for each.
class ByHolder {
 public:
  void Add(uint64_t node, uint64_t bytes) {
    auto it = std::ranges::find(holders_, node, &std::pair<uint64_t, uint64_t>::first);
    if (it == holders_.end()) it = holders_.insert(it, {node, 0});
    it->second += bytes;
  }
  template <typename Function>
  void ForEach(const Peers& peers, const Function& function) const {
    for (const auto& [node, bytes] : holders_)
      if (const PeerRef peer = peers.Find(node)) function(*peer, bytes);
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> holders_;
};

}  // namespace

// One fetch.
struct Fetcher::Search {
  GetBatch* batch;
  TimePoint deadline;
  std::shared_ptr<const View> view;
  StageTime read;
  std::vector<Sought> sought{};
  std::vector<uint64_t> failed{};  // nodes that did not give a page that was expected there
  TimePoint until = deadline;      // of the read at work

  bool Late() const { return batch->hurried() && Clock::now() >= until; }
  std::vector<Key> Keys() const {
    std::vector<Key> keys;
    keys.reserve(sought.size());
    for (const Sought& s : sought) keys.push_back(batch->keys[s.page]);
    return keys;
  }
  size_t Drop(Sought::Why why) {
    return std::erase_if(sought, [why](const Sought& s) { return s.why == why; });
  }
  // Drops those that no shard has named a holder of, and returns their keys; *left: how many more
  // there were that the own disk has.
  std::vector<Key> TakeAbsent(size_t* left) {
    std::vector<Key> keys;
    for (const Sought& s : sought) {
      if (s.why != Sought::kAbsent) continue;
      if (batch->Left(s.page)) {
        ++*left;
      } else {
        keys.push_back(batch->keys[s.page]);
      }
    }
    Drop(Sought::kAbsent);
    return keys;
  }
};

void Fetcher::Fetch(GetBatch* batch, TimePoint deadline) {
  batch->checksums.resize(batch->keys.size());
  auto view = views_->Wait(batch->start + options_.peer_timeout);
  if (view == nullptr) {
    counters_->miss_no_view.Add(batch->wanted.size());
    return;
  }
  if (batch->hurried())
    deadline =
        std::min(deadline, Clock::now() + PatienceFor(batch->recompute, batch->wanted.size()));
  Search search{batch, deadline, std::move(view), StageTime(&counters_->get_read)};
  search.sought.reserve(batch->wanted.size());
  for (const size_t page : batch->wanted) search.sought.push_back({page});

  if (Recall(&search)) Read(&search);
  search.failed.clear();  // a lookup knows more than what was remembered

  LookUp(&search);
  Read(&search);
  // Nobody that can be read from has these, or who has them cannot be known in time.
  size_t left = 0;
  const auto absent = search.TakeAbsent(&left);
  counters_->miss_slower.Add(left);
  const bool late = search.batch->hurried() && Clock::now() >= search.deadline;
  (late ? counters_->miss_slower : counters_->miss_unreachable)
      .Add(search.Drop(Sought::kUnanswered));

  // What is left is looked up again, although the answers had other holders: the second answer is
  // newer than the first, and few calls meet a holder just as it fails or evicts.
  const size_t before = search.sought.size();
  LookUp(&search);
  Read(&search);
  counters_->read_elsewhere.Add(before - search.sought.size());

  for (const Sought& s : search.sought)
    (s.why == Sought::kStale ? counters_->miss_stale : counters_->miss_unreachable).Add(1);
  CountAbsent(search, absent);
}

// Last, since no page comes of it.
void Fetcher::CountAbsent(const Search& search, std::span<const Key> keys) const {
  const TimePoint limit = std::min(search.deadline, Clock::now() + options_.stall);
  const size_t left_out = locator_->LeftOut(*search.view, keys, limit).size();
  counters_->miss_unreachable.Add(left_out);
  counters_->miss_absent.Add(keys.size() - left_out);
}

bool Fetcher::Recall(Search* search) const {
  std::vector<Record> records(search->sought.size());
  std::vector<TimePoint> until(search->sought.size());
  if (locator_->Recall(search->Keys(), records, until, search->batch->start) == 0) return false;
  for (size_t i = 0; i < records.size(); ++i) {
    search->sought[i].record = records[i];
    search->sought[i].until = until[i];
  }
  return true;
}

void Fetcher::LookUp(Search* search) const {
  if (search->sought.empty()) return;
  std::vector<Record> records(search->sought.size());
  const TimePoint asked = Clock::now();
  const auto unanswered = locator_->Lookup(*search->view, search->Keys(), records,
                                           std::min(search->deadline, asked + options_.stall),
                                           search->failed, search->batch->hurried());
  counters_->get_lookup.Observe(Clock::now() - asked);
  for (size_t i = 0; i < records.size(); ++i) {
    search->sought[i].record = records[i];
    search->sought[i].until = Lease(options_.lease, records[i]).EndsAfter(asked);
  }
  for (const size_t i : unanswered)
    if (search->sought[i].why == Sought::kAbsent) search->sought[i].why = Sought::kUnanswered;
}

void Fetcher::Lose(Search* search, const Sought& sought, Sought::Why why,
                   std::vector<Sought>* left) const {
  left->push_back({sought.page, why});
  locator_->Forget(search->batch->keys[sought.page]);
  if (std::ranges::find(search->failed, sought.record.node) == search->failed.end())
    search->failed.push_back(sought.record.node);
}

void Fetcher::Weigh(Search* search) const {
  search->until = search->deadline;
  if (!search->batch->hurried()) return;
  std::vector<Record> records;
  records.reserve(search->sought.size());
  for (const Sought& sought : search->sought) records.push_back(sought.record);
  const auto found = static_cast<size_t>(
      std::ranges::count_if(records, [](const Record& record) { return record.node != 0; }));
  const TimePoint now = Clock::now();
  const Duration worth = WorthOf(search->batch->recompute, found);
  const auto dropped = NotWorth(*peers_, records, worth, Purpose::kGet, now);
  counters_->miss_slower.Add(dropped.size());
  for (auto i = dropped.rbegin(); i != dropped.rend(); ++i)
    search->sought.erase(search->sought.begin() + static_cast<ptrdiff_t>(*i));
  search->until = std::min(search->deadline,
                           now + PatienceFor(search->batch->recompute, found - dropped.size()));
}

void Fetcher::GiveUp(std::span<const Sought> pages, Tier tier, TimePoint start,
                     TimePoint until) const {
  counters_->miss_slower.Add(pages.size());
  ByHolder holders;
  for (const Sought& sought : pages) holders.Add(sought.record.node, sought.record.length);
  const TimePoint now = Clock::now();
  holders.ForEach(*peers_, [&](Peer& peer, uint64_t bytes) {
    peer.cost(tier).Lost(bytes, std::max(now, until) - start, now);
  });
}

void Fetcher::Read(Search* search) const {
  Weigh(search);
  const TimePoint start = Clock::now();
  std::vector<Sought> in_pools, on_disks, left;
  in_pools.reserve(search->sought.size());
  for (const Sought& sought : search->sought) {
    if (sought.record.node == 0) {
      left.push_back({sought.page, sought.why});
    } else if (start >= sought.until) {
      // What was remembered may end between the look at it and here; its holder is not at fault.
      left.push_back({sought.page, Sought::kStale});
      locator_->Forget(search->batch->keys[sought.page]);
    } else if (sought.record.length != search->batch->to.SizeOf(sought.page)) {
      Lose(search, sought, Sought::kStale, &left);
    } else {
      (sought.record.tier == Tier::kDisk ? on_disks : in_pools).push_back(sought);
    }
  }
  ReadPools(search, in_pools, &left);
  if (!on_disks.empty()) ReadDisks(search, std::move(on_disks), &left);
  if (search->batch->to.revoked()) {  // none of it counts
    counters_->miss_given_up.Add(left.size());
    left.clear();
  }
  search->sought.swap(left);
}

void Fetcher::ReadPools(Search* search, std::span<const Sought> pages,
                        std::vector<Sought>* left) const {
  if (pages.empty()) return;
  GetBatch& batch = *search->batch;
  const TimePoint start = Clock::now();
  std::vector<RemotePage> remote;
  remote.reserve(pages.size());
  for (const auto& [page, why, record, until] : pages)
    remote.push_back({batch.keys[page], record, page, until});
  std::vector<ReadOutcome> outcomes(remote.size());
  reader_->Read(remote, batch.to, outcomes, search->until, search->batch->hurried());
  search->read.Add(Clock::now() - start);
  if (batch.to.revoked()) {
    counters_->miss_given_up.Add(remote.size());
    return;
  }
  const bool late_now = search->Late();
  std::vector<Sought> late;
  uint64_t corrupt = 0;
  ByHolder from;
  for (size_t i = 0; i < remote.size(); ++i) {
    const auto& [key, record, page, until] = remote[i];
    switch (outcomes[i]) {
      case ReadOutcome::kRead:
      case ReadOutcome::kReadByRdma:
      case ReadOutcome::kReadMapped:
        batch.Deliver(page, SourceOf(outcomes[i]));
        batch.checksums[page] = record.checksum;
        counters_->read_remote_hits.Add(1);
        counters_->bytes_remote.Add(record.length);
        from.Add(record.node, record.length);
        break;
      case ReadOutcome::kStale: Lose(search, pages[i], Sought::kStale, left); break;
      case ReadOutcome::kUnreachable:
        if (late_now) {
          late.push_back(pages[i]);
        } else {
          Lose(search, pages[i], Sought::kUnreachable, left);
        }
        break;
      case ReadOutcome::kExpired: counters_->miss_expired.Add(1); break;
      case ReadOutcome::kCorrupt: ++corrupt; break;
    }
  }
  from.ForEach(*peers_, [](Peer& peer, uint64_t bytes) { peer.CountRead(bytes); });
  GiveUp(late, Tier::kMemory, start, search->until);
  if (corrupt > 0) {
    counters_->miss_corrupt.Add(corrupt);
    spdlog::error("{} pages arrived with wrong bytes (checksum): memory or network is at fault",
                  corrupt);
  }
}

void Fetcher::ReadDisks(Search* search, std::vector<Sought> pages,
                        std::vector<Sought>* left) const {
  // What comes later than this could not be read in time.
  const TimePoint start = Clock::now();
  const TimePoint last = search->until - (search->until - start) / 4;
  Duration pause = kFirstGap;
  ByHolder come;
  for (;;) {
    std::vector<Sought> here;
    AskDisks(search, &pages, &here, left);
    counters_->fetched_from_disk.Add(here.size());
    ReadPools(search, here, left);
    for (const Sought& sought : here) come.Add(sought.record.node, sought.record.length);
    if (search->batch->to.revoked()) {
      counters_->miss_given_up.Add(pages.size());
      return;
    }
    if (pages.empty() || Clock::now() + pause >= last) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestGap);
  }
  const TimePoint now = Clock::now();
  come.ForEach(*peers_, [&](Peer& peer, uint64_t bytes) {
    peer.cost(Tier::kDisk).Took(bytes, 0, now - start);
  });
  if (search->batch->hurried()) return GiveUp(pages, Tier::kDisk, start, search->until);
  // The tail of a batch, of which the drive has too much: a miss, at no holder's fault.
  counters_->miss_disk_late.Add(pages.size());
}

void Fetcher::AskDisks(Search* search, std::vector<Sought>* pages, std::vector<Sought>* here,
                       std::vector<Sought>* left) const {
  NodeGroups groups;
  for (size_t i = 0; i < pages->size(); ++i) groups.Add((*pages)[i].record.node, i);
  std::vector<Sought> coming;
  std::vector<std::span<const NodeGroups::Item>> asked;
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  groups.ForEach([&](uint64_t node, std::span<const NodeGroups::Item> items) {
    const PeerRef peer = peers_->Find(node);
    if (peer == nullptr) {
      for (const auto& item : items) Lose(search, (*pages)[item.index], Sought::kUnreachable, left);
      return;
    }
    std::vector<Key> keys;
    for (const auto& item : items) keys.push_back(search->batch->keys[(*pages)[item.index].page]);
    EncodeKeys(keys, &calls.Add(peer, MessageType::kFetch).request);
    asked.push_back(items);
  });
  const TimePoint sent = Clock::now();  // what a holder says may be used for a lease from here
  calls.Run(MessageType::kFetchOk, {options_.stall, search->until, search->batch->hurried()});
  for (size_t c = 0; c < asked.size(); ++c) {
    const PeerCall& call = *calls.calls()[c];
    FetchAnswer answer;
    FrameReader body = call.answer;
    const bool valid =
        call.status.ok() && answer.Decode(&body) && answer.places.size() == asked[c].size();
    for (size_t i = 0; i < asked[c].size(); ++i) {
      Sought sought = (*pages)[asked[c][i].index];
      const FetchPlace place = valid ? answer.places[i] : FetchPlace{};
      if (!valid && search->Late()) {
        coming.push_back(sought);  // and is given up
      } else if (!valid) {
        Lose(search, sought, Sought::kUnreachable, left);
      } else if (place.state == kFetchComing) {
        coming.push_back(sought);
      } else if (place.state == kFetchAbsent || place.length != sought.record.length) {
        Lose(search, sought, Sought::kStale, left);
      } else {
        sought.record.tier = Tier::kMemory;
        sought.record.offset = place.offset;
        sought.record.generation = place.generation;
        sought.record.incarnation = answer.incarnation;
        sought.until = Lease(options_.lease, sought.record).EndsAfter(sent);
        here->push_back(sought);
      }
    }
  }
  pages->swap(coming);
}

}  // namespace peercache
