// How the directory is kept true. Publish groups pages by home, notes the home at each page, asks
// all homes at once, and starts another round (four at most) if the view changed meanwhile.
// Withdraw asks every noted shard; the latest time that any of them needs is the slot's. Repair
// compares notes with the rings in one pass over all pages: it publishes what a home lacks and
// withdraws what no ring assigns to a shard. A pass that a new view ends is continued from its
// place by the next one.
// Costs: notes in each slot (PublishedTo), a message for each shard and 2,048 records.
// Rejected: to publish after the answer, since a set that has returned is visible to every reader;
// shards that copy each other's records, since the holder can always publish them again.
#include "node/owner/publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "directory/lease.h"

namespace peercache {
namespace {

// Items in one message: bounds memory and the time one message takes.
constexpr size_t kBatch = 2048;
// When a page whose note could not be removed, because it was in use, is looked at again.
constexpr Duration kForgetAgain = milliseconds(500);
using Groups = std::unordered_map<uint64_t, std::vector<size_t>>;

PageAt PlaceOf(const HeldPage& page) {
  return {page.record.offset, page.record.generation, page.key};
}

// As withdrawn from one shard.
std::vector<Victim> VictimsOf(std::span<const HeldPage> pages, std::span<const size_t> which,
                              uint16_t peer) {
  std::vector<Victim> victims;
  victims.reserve(which.size());
  for (const size_t i : which) {
    Victim& victim = victims.emplace_back();
    victim.key = pages[i].key;
    victim.generation = pages[i].record.generation;
    victim.published_to.Add(peer);
  }
  return victims;
}

// A set is acknowledged only when its page can be found.
bool MustBeServed(const HeldPage& page) {
  return page.record.replica == 0 && page.record.tier == Tier::kMemory;
}

}  // namespace

Publisher::Publisher(PublisherOptions options, Shard* shard, Holdings* pool, Peers* peers,
                     const Views* views, Counters* counters, Clears* clears, Holdings* disk)
    : options_(options),
      shard_(shard),
      pool_(pool),
      disk_(disk),
      peers_(peers),
      views_(views),
      counters_(counters),
      clears_(clears),
      offers_(options.offer_again) {}

Record Publisher::RecordOf(const PagePin& pin) const { return Signed(PoolHoldings::RecordOf(pin)); }

HeldPage Publisher::Held(PagePin pin) const {
  const Key key = pin.header().key;
  const Record record = RecordOf(pin);
  return {key, record, std::move(pin)};
}

Record Publisher::Signed(Record record) const {
  record.node = peers_->self();
  record.incarnation = options_.incarnation;
  record.lease_ms = Lease::OnTheWire(options_.lease);
  return record;
}

GroupLimits Publisher::Limits(TimePoint now) const {
  return {options_.stall, now + options_.peer_timeout};
}

OwnerStamp Publisher::SelfStamp() const {
  return {.node = peers_->self(),
          .incarnation = options_.incarnation,
          .epoch = 1,
          .lease_ms = Lease::OnTheWire(options_.lease)};
}

Publisher::Targets Publisher::TargetsOf(const View& view, const Key& key) const {
  const uint64_t current = view.current.OwnerOf(key);
  const uint64_t next = view.next.OwnerOf(key);
  Targets targets{{current, next}, 2};
  if (current == 0) targets = {{next, 0}, 1};
  if (next == 0 || next == current) targets = {{targets.nodes[0], 0}, 1};
  return targets;
}

void Publisher::Publish(std::span<const HeldPage> pages, std::span<uint8_t> ok,
                        TimePoint deadline) {
  std::fill(ok.begin(), ok.end(), uint8_t{0});
  if (disowned_) return;
  auto view = views_->Get();
  // Nodes that were acknowledged in an earlier round need not be asked again.
  std::vector<Targets> done(pages.size(), Targets{{0, 0}, 0});
  for (int round = 0; view != nullptr && round < 4; ++round) {
    Groups groups;
    for (size_t i = 0; i < pages.size(); ++i) {
      const Targets targets = TargetsOf(*view, pages[i].key);
      for (int t = 0; t < targets.count; ++t) {
        const uint64_t node = targets.nodes[t];
        const bool known = std::any_of(done[i].nodes, done[i].nodes + done[i].count,
                                       [node](uint64_t d) { return d == node; });
        if (node != 0 && !known) groups[node].push_back(i);
      }
      done[i] = targets;
    }
    std::vector<uint8_t> failed(pages.size(), 0);
    PublishToPeers(pages, groups, failed, deadline);
    for (size_t i = 0; i < pages.size(); ++i) {
      ok[i] = !failed[i];
      if (ok[i]) continue;
      done[i].count = 0;  // tried again if another round comes
      offers_.Refused();
    }
    // A member may have appeared meanwhile and finished its preparation without these pages.
    auto after = views_->Get();
    if (after == view) return;
    view = std::move(after);
  }
}

void Publisher::PublishToPeers(std::span<const HeldPage> pages, const Groups& groups,
                               std::span<uint8_t> failed, TimePoint deadline,
                               std::unordered_map<uint64_t, size_t>* refused) {
  struct Sent {
    PeerRef peer;
    OwnerStamp stamp;
    std::span<const size_t> which;
  };
  // The shard says that it has no record of the page, so no note is needed; a former process of it
  // may still serve one, until it is `silent`.
  const auto refuse = [&](size_t i, uint64_t node, uint16_t index, bool silent) {
    if (MustBeServed(pages[i])) {
      failed[i] = 1;
      return;
    }
    offers_.Refused();
    if (refused != nullptr) ++(*refused)[node];
    Holdings* const holdings = Of(pages[i].record.tier);
    if (silent && holdings->Unnote(PlaceOf(pages[i]), index))
      holdings->Told(PlaceOf(pages[i]), Clock::now());
    else
      failed[i] = 1;
  };
  // First: the messages to others carry a time limit from when they are begun.
  if (const auto own = groups.find(peers_->self()); own != groups.end()) {
    const auto& which = own->second;
    std::vector<uint8_t> outcomes(which.size(), kRefused);
    const bool accepted = PublishToSelf(pages, which, outcomes);
    for (size_t i = 0; i < which.size(); ++i) {
      if (!accepted)
        failed[which[i]] = 1;
      else if (outcomes[i] == kRefused)
        refuse(which[i], peers_->self(), Peers::kSelf, true);
    }
  }
  std::vector<Sent> sent;
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  const TimePoint now = Clock::now();
  for (const auto& [node, which] : groups) {
    if (node == peers_->self()) continue;
    const PeerRef peer = peers_->Find(node);
    // A peer that had no time to answer would count as one that fails, and its epoch would end.
    if (peer == nullptr || !peer->health().Allows(now) || now >= deadline) {
      for (size_t i : which) failed[i] = 1;
      continue;
    }
    for (size_t at = 0; at < which.size(); at += kBatch) {
      const auto part = std::span(which).subspan(at, std::min(kBatch, which.size() - at));
      const auto items = Note(pages, part, peer->index());
      const OwnerStamp stamp = peer->BeginOwnerMessage();
      EncodePublish(stamp, items, &calls.Add(peer, MessageType::kPublish).request);
      sent.push_back({peer, stamp, part});
    }
  }
  if (calls.empty()) return;
  counters_->publish_messages.Add(sent.size());
  calls.Run(MessageType::kPublishOk, {options_.stall, deadline});
  const TimePoint answered = Clock::now();
  std::vector<size_t> stored;  // acknowledged, but not served before a Contact
  std::vector<PeerRef> contacts;
  for (size_t c = 0; c < sent.size(); ++c) {
    ShardAnswer answer;
    const bool valid = End(*calls.calls()[c], sent[c].stamp, &answer, answered) &&
                       answer.outcomes.size() == sent[c].which.size();
    for (size_t i = 0; i < sent[c].which.size(); ++i) {
      const size_t page = sent[c].which[i];
      if (!valid) failed[page] = 1;
      if (valid && answer.outcomes[i] == kRefused) {
        const Peer& shard = *sent[c].peer;
        refuse(page, shard.node(), shard.index(), answered > shard.SilentAfter());
      }
      if (!valid || answer.outcomes[i] != kStored) continue;
      stored.push_back(page);
      if (std::find(contacts.begin(), contacts.end(), sent[c].peer) == contacts.end()) {
        contacts.push_back(sent[c].peer);
      }
    }
  }
  if (!contacts.empty() && !Contact(contacts, {options_.stall, deadline})) {
    for (size_t page : stored) failed[page] = 1;
  }
}

template <typename Answer>
bool Publisher::End(const PeerCall& call, const OwnerStamp& sent, Answer* answer, TimePoint now) {
  FrameReader reader = call.answer;
  const bool arrived = call.status.ok() && answer->Decode(&reader);  // model: TimeOut
  return call.peer->EndOwnerMessage(sent, arrived ? answer : nullptr, now);
}

// model: Contact
bool Publisher::Contact(std::span<const PeerRef> peers, const GroupLimits& limits) {
  CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
  std::vector<OwnerStamp> stamps;
  for (const PeerRef& peer : peers) {
    stamps.push_back(peer->BeginOwnerMessage());
    FrameWriter& request = calls.Add(peer, MessageType::kContact).request;
    if (clears_ != nullptr) request.Can(FrameHeader::kHearsClears);
    EncodeContact(stamps.back(), &request);
  }
  counters_->contact_messages.Add(peers.size());
  const TimePoint asked = Clock::now();
  calls.Run(MessageType::kContactOk, limits);
  const TimePoint answered = Clock::now();
  bool all = true;
  for (size_t i = 0; i < peers.size(); ++i) {
    const PeerCall& call = *calls.calls()[i];
    ShardAnswer answer;
    FrameReader reader = call.answer;
    // A contact without answer puts nothing into the shard, so the epoch stays.
    const bool arrived = call.status.ok() && answer.Decode(&reader);
    all &= arrived && peers[i]->EndOwnerMessage(stamps[i], &answer, answered);
    if (arrived) peers[i]->round_trip().Took(call.finished - call.began);
    if (arrived && clears_ != nullptr)
      clears_->Heard(peers[i], call.answered_by, answer.clears, asked);
  }
  return all;
}

std::vector<PublishItem> Publisher::Note(std::span<const HeldPage> pages,
                                         std::span<const size_t> which, uint16_t peer) {
  std::vector<PublishItem> items;
  std::vector<PageAt> places;
  items.reserve(which.size());
  places.reserve(which.size());
  for (const size_t i : which) {
    items.push_back({pages[i].key, pages[i].record});
    places.push_back(PlaceOf(pages[i]));
  }
  // Of one tier each time. model: Publish, note_first
  if (!which.empty()) Of(pages[which[0]].record.tier)->Note(places, peer);
  return items;
}

bool Publisher::PublishToSelf(std::span<const HeldPage> pages, std::span<const size_t> which,
                              std::span<uint8_t> outcomes) {
  const auto items = Note(pages, which, Peers::kSelf);
  return shard_->Publish(SelfStamp(), items, outcomes, Clock::now()).ok();
}

void Publisher::Withdraw(std::span<const Victim> victims, std::span<TimePoint> reuse_at) {
  const TimePoint start = Clock::now();  // model: Withdraw
  // Victims that a shard may have records of, and what it says of them.
  struct Part {
    std::vector<size_t> which;
    WithdrawAnswer answer;
  };
  std::unordered_map<PeerRef, Part> parts;
  std::vector<size_t> own;
  const auto all = peers_->All();
  for (size_t i = 0; i < victims.size(); ++i) {
    const PublishedTo& to = victims[i].published_to;
    if (to.Contains(Peers::kSelf)) own.push_back(i);
    if (to.everywhere) {
      for (const PeerRef& peer : all) parts[peer].which.push_back(i);
      continue;
    }
    for (int p = 0; p < to.count; ++p) {
      if (const PeerRef peer = peers_->At(to.peers[p])) parts[peer].which.push_back(i);
    }
  }
  const auto items_of = [&](std::span<const size_t> which) {
    std::vector<WithdrawItem> items;
    items.reserve(which.size());
    for (const size_t i : which) items.push_back({victims[i].key, victims[i].generation});
    return items;
  };
  // What this node knows itself: when it has told somebody of the page, and its own shard has.
  for (size_t i = 0; i < victims.size(); ++i)
    reuse_at[i] = UnheldAfter(start, victims[i].told.MillisAgo(start), options_.lease);
  if (!own.empty()) {
    std::vector<uint32_t> unserved(own.size(), 0);
    if (!shard_->Withdraw(SelfStamp(), items_of(own), start, unserved).ok())
      std::fill(unserved.begin(), unserved.end(), 0);
    const TimePoint over = Clock::now();
    for (size_t k = 0; k < own.size(); ++k) {
      TimePoint& at = reuse_at[own[k]];
      at = std::max(at, UnheldAfter(over, unserved[k], options_.lease));
    }
  }

  CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
  std::vector<OwnerStamp> stamps;
  std::vector<Part*> asked;
  for (auto& [peer, part] : parts) {
    if (!peer->in_view() || !peer->health().Allows(start)) {
      peer->GiveUp();  // not worth waiting for: its silence is waited out instead
      counters_->withdraw_unacknowledged.Add(part.which.size());
      continue;
    }
    stamps.push_back(peer->BeginOwnerMessage());
    FrameWriter& request = calls.Add(peer, MessageType::kWithdraw).request;
    request.Can(FrameHeader::kHearsServed);
    EncodeWithdraw(stamps.back(), items_of(part.which), &request);
    asked.push_back(&part);
  }
  counters_->withdraw_messages.Add(stamps.size());
  calls.Run(MessageType::kWithdrawOk, Limits(start));
  const TimePoint over = Clock::now();
  for (size_t c = 0; c < stamps.size(); ++c) {
    if (End(*calls.calls()[c], stamps[c], &asked[c]->answer, over)) continue;
    asked[c]->answer = {};  // it may have served all of it just now
    counters_->withdraw_unacknowledged.Add(asked[c]->which.size());
  }
  for (const auto& [peer, part] : parts) {
    const Fence fence = peer->fence();
    for (size_t k = 0; k < part.which.size(); ++k) {
      TimePoint& at = reuse_at[part.which[k]];
      at = std::max(at, fence.ReuseAfter(over, part.answer.UnservedMillis(k, part.which.size())));
    }
  }
  if (disk_ != nullptr) disk_->Replaced(victims);
  counters_->withdrawn.Add(victims.size());
}

void Publisher::KeepAliveIfDue() {
  if (Clock::now() >= kept_alive_ + options_.keepalive) KeepAlive();
}

void Publisher::KeepAlive() {
  kept_alive_ = Clock::now();
  peers_->ForgetGone(Clock::now());
  const auto peers = peers_->InView();
  if (!peers.empty()) (void)Contact(peers, Limits(Clock::now()));
}

void Publisher::RepairAgain() {
  repaired_epoch_ = 0;
  if (!pass_) return;
  pass_->began = place_;
  pass_->turned = false;
  pass_->unseen = HeldPages();
}

bool Publisher::Repair(const View& view) {
  if (pass_ && (pass_->epoch != view.epoch || pass_->grace_over != view.previous.empty())) {
    // The next one begins here: where rings change again and again, every page has its turn.
    for (const auto& [peer, epoch] : pass_->resync) noted_only_.insert(peer->index());
    repaired_epoch_ = 0;
    pass_.reset();
  }
  if (!pass_ && !BeginPass(view)) return true;
  Step(view);
  return PassEnded() && EndPass();
}

bool Publisher::BeginPass(const View& view) {
  const bool grace_over = view.previous.empty(), other_ring = repaired_epoch_ != view.epoch;
  std::unordered_map<PeerRef, uint64_t> resync;
  for (const PeerRef& peer : peers_->InView()) {
    // Who is in no ring is told of everything again when it is in one.
    if (view.IsUnreachable(peer->node())) continue;
    if (peer->needs_resync() || (other_ring && noted_only_.contains(peer->index())))
      resync.emplace(peer, peer->epoch());
  }
  const TimePoint now = Clock::now();
  if (resync.empty() && !other_ring && (repaired_after_grace_ || !grace_over) && now < forget_at_ &&
      !offers_.Due(now))
    return false;
  counters_->repair_passes.Add(1);
  offers_.PassBegins(now);
  full_.clear();
  // This pass withdraws again where such notes are not wanted, and so comes to know of those left.
  if (grace_over)
    for (const auto& [peer, epoch] : resync) noted_only_.erase(peer->index());
  forget_at_ = TimePoint::max();
  pass_ = Pass{.epoch = view.epoch,
               .grace_over = grace_over,
               .resync = std::move(resync),
               .began = place_,
               .unseen = HeldPages()};
  backlog_.store(pass_->unseen, std::memory_order_relaxed);
  return true;
}

void Publisher::Step(const View& view) {
  Misplaced misplaced;
  std::vector<NotedPage> pages;
  size_t looked = 0;
  for (const uint64_t batches = pass_->batches;
       !PassEnded() && looked < options_.repair_step && pass_->batches == batches;) {
    Holdings* const holdings = place_.on_disk ? disk_ : pool_;
    if (holdings->Next(&place_.at, &pages)) {
      for (const NotedPage& page : pages) Check(view, holdings, page, &misplaced);
      looked += 1 + pages.size();  // pages on disk that are in the pool, too, are not among them
    } else if (!PassEnded()) {
      PutRight(&misplaced);
      place_ = {.on_disk = !place_.on_disk && disk_ != nullptr, .at = 0};
      pass_->turned |= !place_.on_disk;
    }
  }
  PutRight(&misplaced);
}

void Publisher::Check(const View& view, Holdings* holdings, const NotedPage& info,
                      Misplaced* misplaced) {
  if (pass_->unseen > 0) --pass_->unseen;
  const Targets targets = TargetsOf(view, info.at.key);
  uint64_t missing[2];
  int missing_count = 0;
  for (int t = 0; t < targets.count; ++t) {
    const uint64_t node = targets.nodes[t];
    if (node == 0) continue;
    const bool own = node == peers_->self();
    const PeerRef peer = own ? nullptr : peers_->Find(node);
    const bool noted = own ? info.published_to.Names(Peers::kSelf)
                           : peer != nullptr && info.published_to.Names(peer->index());
    if (noted && !pass_->resync.contains(peer)) continue;
    // What is noted there, of before, is told all the same: the note would stay.
    if (!noted && holdings == disk_ && full_.contains(node)) continue;
    missing[missing_count++] = node;
  }
  std::vector<uint16_t> surplus;
  for (int p = 0; pass_->grace_over && p < info.published_to.count; ++p) {
    const uint16_t index = info.published_to.peers[p];
    const PeerRef peer = peers_->At(index);
    if (peer == nullptr && index != Peers::kSelf) {
      ForgetVoid(holdings, info.at, index);
      continue;
    }
    const uint64_t node = index == Peers::kSelf ? peers_->self() : peer->node();
    const bool wanted = std::any_of(targets.nodes, targets.nodes + targets.count,
                                    [node](uint64_t t) { return t == node; });
    if (wanted) continue;
    const bool gone = peer != nullptr && !view.HasMember(node);
    // Nothing can be withdrawn from it now; the note stays until it is back or gone.
    if (peer != nullptr && view.IsUnreachable(node)) continue;
    if (!gone) {
      surplus.push_back(index);
    } else {
      ForgetGone(holdings, info.at, peer, Clock::now());
    }
  }
  if (missing_count == 0 && surplus.empty()) return;
  HeldPage page{info.at.key, {}, {}};
  page.hold = holdings->Take(info.at, &page.record);
  if (!page.hold) return;  // it has been evicted since
  page.record = Signed(page.record);
  for (int m = 0; m < missing_count; ++m)
    misplaced->publish[missing[m]].push_back(misplaced->pages.size());
  for (uint16_t index : surplus) misplaced->withdraw[index].push_back(misplaced->pages.size());
  misplaced->bytes += page.record.length;
  misplaced->pages.push_back(std::move(page));
  if (misplaced->pages.size() >= kBatch || misplaced->bytes >= holdings->most_held())
    PutRight(misplaced);
}

void Publisher::PutRight(Misplaced* misplaced) {
  backlog_.store(pass_->unseen + misplaced->pages.size() + pass_->failed,
                 std::memory_order_relaxed);
  if (misplaced->pages.empty()) return;
  ++pass_->batches;
  pass_->failed += FlushRepair(*misplaced);
  *misplaced = {};
}

bool Publisher::EndPass() {
  const Pass pass = *std::exchange(pass_, std::nullopt);
  backlog_.store(pass.failed, std::memory_order_relaxed);
  offers_.PassEnds();
  if (pass.failed > 0) {
    for (const auto& [peer, epoch] : pass.resync) noted_only_.insert(peer->index());
    return false;
  }
  for (const auto& [peer, epoch] : pass.resync) peer->Resynced(epoch);
  repaired_epoch_ = pass.epoch;
  repaired_after_grace_ = pass.grace_over;
  return true;
}

bool Publisher::Unnote(Holdings* holdings, const PageAt& page, uint16_t index) {
  if (holdings->Unnote(page, index)) return true;
  forget_at_ = std::min(forget_at_, Clock::now() + kForgetAgain);
  return false;
}

void Publisher::NoteAgain(Holdings* holdings, const PageAt& page, uint16_t index, TimePoint until) {
  holdings->Note(std::span(&page, 1), index);
  forget_at_ = std::min(forget_at_, until);
}

void Publisher::ForgetVoid(Holdings* holdings, const PageAt& page, uint16_t index) {
  Record record;
  if (const Hold hold = holdings->Take(page, &record)) (void)Unnote(holdings, page, index);
}

void Publisher::ForgetGone(Holdings* holdings, const PageAt& page, const PeerRef& peer,
                           TimePoint now) {
  if (now <= peer->UnheldAfter()) {
    forget_at_ = std::min(forget_at_, peer->UnheldAfter());
    return;
  }
  Record record;
  const Hold hold = holdings->Take(page, &record);
  if (!hold || !Unnote(holdings, page, peer->index())) return;
  // A publish from a view of before may have begun an epoch that the shard still serves.
  peer->GiveUp();  // model: ForgetGone, gone_gives_up
  if (now <= peer->UnheldAfter()) NoteAgain(holdings, page, peer->index(), peer->UnheldAfter());
}

size_t Publisher::FlushRepair(const Misplaced& misplaced) {
  const std::vector<HeldPage>& pages = misplaced.pages;
  Holdings* const holdings = Of(pages.front().record.tier);
  std::vector<uint8_t> failed(pages.size(), 0);
  const TimePoint now = Clock::now();
  std::unordered_map<uint64_t, size_t> refused;
  PublishToPeers(pages, misplaced.publish, failed, now + options_.peer_timeout, &refused);
  holdings->Published(pages);
  for (const auto& [node, which] : misplaced.publish) {
    if (holdings == disk_ && !which.empty() && refused[node] == which.size()) full_.insert(node);
  }

  for (const auto& [index, surplus] : misplaced.withdraw) {
    // The note goes first: a publish that begins after it notes the shard anew. model: Remove
    std::vector<size_t> which;
    std::copy_if(surplus.begin(), surplus.end(), std::back_inserter(which),
                 [&, to = index](size_t i) { return Unnote(holdings, PlaceOf(pages[i]), to); });
    if (which.empty()) continue;
    std::vector<WithdrawItem> items;
    for (size_t i : which) items.push_back({pages[i].key, pages[i].record.generation});
    bool acknowledged = true;
    TimePoint silent{};
    if (index == Peers::kSelf) {
      acknowledged = shard_->Withdraw(SelfStamp(), items, now).ok();
    } else {
      const PeerRef peer = peers_->At(index);
      if (peer == nullptr) continue;  // it was dropped meanwhile: nothing is left there
      CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
      const OwnerStamp stamp = peer->BeginOwnerMessage();
      EncodeWithdraw(stamp, items, &calls.Add(peer, MessageType::kWithdraw).request);
      counters_->withdraw_messages.Add(1);
      calls.Run(MessageType::kWithdrawOk, Limits(now));
      ShardAnswer answer;
      acknowledged = End(*calls.calls()[0], stamp, &answer, Clock::now());
      silent = peer->SilentAfter();
    }
    for (size_t i : which)
      if (!acknowledged) failed[i] = 1;
    if (disk_ != nullptr && holdings != disk_) disk_->Replaced(VictimsOf(pages, which, index));
    // A former process of the shard may still serve what this one has withdrawn.
    // model: keep_note_till_silent
    const TimePoint over = Clock::now();
    const bool forget = acknowledged && over > silent;
    if (!forget) noted_only_.insert(index);
    for (size_t i : which) {
      if (forget) {
        holdings->Told(PlaceOf(pages[i]), over);  // model: served_elsewhere
      } else {
        NoteAgain(holdings, PlaceOf(pages[i]), index, std::max(silent, now));
      }
    }
  }
  const auto left = static_cast<size_t>(std::count(failed.begin(), failed.end(), uint8_t{1}));
  counters_->republished.Add(pages.size() - left);
  return left;
}

void Publisher::DisownAll() {
  disowned_ = true;
  shard_->Forget(peers_->self());
  for (const PeerRef& peer : peers_->InView()) peer->GiveUp();
  KeepAlive();  // carries the new epoch, which drops everything of the former ones
}

}  // namespace peercache
