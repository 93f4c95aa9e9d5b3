#include "node/locator.h"

#include <algorithm>
#include <vector>

namespace peercache {
namespace {

constexpr int kLookShare = 2;

}  // namespace

Locator::Locator(LocatorOptions options, Shard* shard, Peers* peers, OneSidedLookups* one_sided,
                 Counters* counters)
    : options_(options),
      shard_(shard),
      peers_(peers),
      one_sided_(one_sided),
      counters_(counters),
      cache_(options.cache_ttl > Duration::zero() ? options.cache_entries : 0) {}

size_t Locator::Recall(std::span<const Key> keys, std::span<Record> records,
                       std::span<TimePoint> until, TimePoint now) {
  const size_t found = cache_.Find(keys, records, until, now);
  counters_->locations_recalled.Add(found);
  return found;
}

void Locator::Lookup(const View& view, std::span<const Key> keys, std::span<Record> records,
                     TimePoint deadline, std::span<const uint64_t> failed) {
  const TimePoint asked_at = Clock::now();  // model: lease_from_ask
  std::fill(records.begin(), records.end(), Record{});
  std::vector<size_t> missing(keys.size());
  for (size_t i = 0; i < missing.size(); ++i) missing[i] = i;
  // The owners in `current`, then for what is missing those in `next` and `previous` (view.h).
  const Ring* asked[3] = {};
  int rounds = 0;
  for (const Ring* ring : {&view.current, &view.next, &view.previous}) {
    // Only keys whose owner in this ring has not been asked in an earlier round.
    NodeGroups groups;
    for (size_t i : missing) {
      const uint64_t owner = ring->OwnerOf(keys[i]);
      const bool repeated = std::any_of(asked, asked + rounds, [&](const Ring* before) {
        return before->OwnerOf(keys[i]) == owner;
      });
      if (owner != 0 && !repeated) groups.Add(owner, i);
    }
    asked[rounds++] = ring;
    if (!groups.empty()) LookupAt(&groups, keys, records, deadline, failed);
    std::erase_if(missing, [&](size_t i) { return records[i].node != 0; });
    if (missing.empty() || Clock::now() >= deadline) break;
  }
  cache_.Put(keys, records, asked_at, std::min(options_.cache_ttl, options_.lease));
}

void Locator::LookupAt(NodeGroups* groups, std::span<const Key> keys, std::span<Record> records,
                       TimePoint deadline, std::span<const uint64_t> failed) {
  const TimePoint now = Clock::now();
  auto exclude = peers_->Unhealthy(now);
  exclude.insert(exclude.end(), failed.begin(), failed.end());
  std::vector<Peer*> due;
  if (one_sided_ != nullptr) LookAt(groups, &due, keys, records, exclude, now, deadline);
  Ask(groups, due, keys, records, exclude, deadline);
}

// Leaves in `groups` what has to be asked for.
void Locator::LookAt(NodeGroups* groups, std::vector<Peer*>* due, std::span<const Key> keys,
                     std::span<Record> records, std::span<const uint64_t> exclude, TimePoint now,
                     TimePoint deadline) {
  // Longer than a silent queue is waited for (Fabric::queue_stall), so that others can take over,
  // and the rest is left to ask for what these bring not.
  const TimePoint limit = now + std::min(options_.stall, deadline - now) / kLookShare;
  std::vector<OneSidedLookups::Look> looks;
  NodeGroups ask;
  groups->ForEach([&](uint64_t owner, std::span<const NodeGroups::Item> items) {
    Peer* peer = peers_->Find(owner);
    bool renew = false;
    const auto grant = peer == nullptr ? nullptr : one_sided_->Use(*peer, now, &renew);
    if (renew) due->push_back(peer);
    const bool look = grant && !renew && peer->health().Allows(now);
    for (const auto& item : items) {
      if (look) {
        looks.push_back({item.index, owner, grant});
      } else {
        ask.Add(owner, item.index);
      }
    }
  });
  for (const auto& look : one_sided_->LookUp(looks, keys, records, exclude, now, limit))
    ask.Add(look.node, look.index);
  *groups = std::move(ask);
}

void Locator::LookupHere(std::span<const NodeGroups::Item> items, std::span<const Key> keys,
                         std::span<const uint64_t> exclude, std::span<Record> records) {
  std::vector<Key> asked;
  for (const auto& item : items) asked.push_back(keys[item.index]);
  std::vector<Record> found(items.size());
  shard_->Lookup(asked, peers_->self(), exclude, found, Clock::now());
  for (size_t i = 0; i < items.size(); ++i) records[items[i].index] = found[i];
}

void Locator::Ask(NodeGroups* groups, std::span<Peer* const> due, std::span<const Key> keys,
                  std::span<Record> records, std::span<const uint64_t> exclude,
                  TimePoint deadline) {
  std::vector<Key> asked;
  std::vector<Record> found;
  std::vector<std::span<const NodeGroups::Item>> sent;
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  const TimePoint now = Clock::now();  // model: grant_from_ask
  size_t count = 0;
  groups->ForEach([&](uint64_t owner, std::span<const NodeGroups::Item> items) {
    if (owner == peers_->self()) {
      LookupHere(items, keys, exclude, records);
      return;
    }
    Peer* peer = peers_->Find(owner);
    if (peer == nullptr || !peer->health().Allows(now)) return;
    asked.clear();
    for (const auto& item : items) asked.push_back(keys[item.index]);
    count += items.size();
    EncodeLookup(peers_->self(), exclude, asked, &calls.Add(peer, MessageType::kLookup).request);
    sent.push_back(items);
  });
  for (Peer* peer : due)
    calls.Add(peer, MessageType::kDirectory).wanted = MessageType::kDirectoryOk;
  // A peer that had no time to answer would count as one that fails.
  if (calls.empty() || now >= deadline) return;
  counters_->asked_for.Add(count);
  calls.Run(MessageType::kLookupOk, {options_.stall, deadline});
  for (size_t c = 0; c < sent.size(); ++c) {
    const PeerCall& call = *calls.calls()[c];
    FrameReader reader = call.answer;
    if (!call.status.ok() || !DecodeRecords(&reader, &found) || found.size() != sent[c].size())
      continue;
    for (size_t i = 0; i < found.size(); ++i) records[sent[c][i].index] = found[i];
  }
  for (const auto& call : calls.calls().subspan(sent.size())) one_sided_->Take(*call, now);
}

}  // namespace peercache
