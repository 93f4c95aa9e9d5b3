#include "node/read/lookup_round.h"

#include <utility>

#include "wire/messages.h"

namespace peercache {

std::span<const uint64_t> LookupRound::exclude() {
  if (!exclude_) {
    exclude_.emplace();
    if (holders_ == HoldersNamed::kReadable) exclude_ = parts_.peers->ToAvoid(Clock::now());
    exclude_->insert(exclude_->end(), failed_.begin(), failed_.end());
  }
  return *exclude_;
}

void LookupRound::Add(uint64_t owner, size_t index) {
  if (latest_ == nullptr || latest_->owner != owner) {
    latest_ = &waiting_[owner];  // others that are added do not move it
    latest_->owner = owner;
  }
  latest_->items.push_back(static_cast<uint32_t>(index));
  if (latest_->items.size() < kBatch) return;
  Send(latest_);
  calls_.Start();
}

void LookupRound::Finish() {
  const uint64_t self = parts_.peers->self();
  for (auto& [owner, waiting] : waiting_)
    if (owner != self) Send(&waiting);
  const TimePoint now = Clock::now();  // model: grant_from_ask
  if (now < deadline_) {
    for (const PeerRef& peer : due_)
      calls_.Add(peer, MessageType::kDirectory).wanted = MessageType::kDirectoryOk;
  }
  calls_.Start();
  if (const auto own = waiting_.find(self); own != waiting_.end()) Send(&own->second);
  if (calls_.empty()) return;
  calls_.Run(MessageType::kLookupOk, {parts_.stall, deadline_, parts_.hurried},
             [this](size_t c) { Take(c); });
  for (const auto& call : calls_.calls().subspan(sent_.size())) parts_.one_sided->Take(*call, now);
}

void LookupRound::Send(Waiting* waiting) {
  Items items = std::exchange(waiting->items, {});
  if (items.empty()) return;
  if (waiting->owner == parts_.peers->self()) return LookupHere(items);
  const TimePoint now = Clock::now();
  const PeerRef peer = parts_.peers->Find(waiting->owner);
  // A peer that had no time to answer would count as one that fails.
  if (now >= deadline_ || peer == nullptr || !peer->health().Allows(now) ||
      !parts_.peers->Vouched(*peer)) {
    return Unanswered(items);
  }
  asked_.clear();
  for (const uint32_t i : items) asked_.push_back(keys_[i]);
  FrameWriter& request = calls_.Add(peer, MessageType::kLookup).request;
  request.Can(FrameHeader::kChooses);
  EncodeLookup(parts_.peers->self(), exclude(), asked_, &request);
  sent_.push_back(std::move(items));
  parts_.counters->asked_for.Add(asked_.size());
}

void LookupRound::LookupHere(std::span<const uint32_t> items) {
  asked_.clear();
  for (const uint32_t i : items) asked_.push_back(keys_[i]);
  records_.assign(items.size(), Record{});
  others_.clear();
  parts_.shard->Lookup(asked_, parts_.peers->self(), exclude(), records_, Clock::now(), &others_);
  Place(items);
}

void LookupRound::Take(size_t call) {
  if (call >= sent_.size()) return;
  const auto& items = sent_[call];
  const PeerCall& answered = *calls_.calls()[call];
  FrameReader reader = answered.answer;
  if (answered.status.ok() && DecodeRecords(&reader, &records_, &others_) &&
      records_.size() == items.size()) {
    Place(items);
  } else {
    Unanswered(items);
  }
}

void LookupRound::Place(std::span<const uint32_t> items) {
  for (size_t i = 0; i < items.size(); ++i) found_->records[items[i]] = records_[i];
  for (const OtherRecord& other : others_)
    found_->others.push_back({items[other.index], 0, other.record});
}

void LookupRound::Unanswered(std::span<const uint32_t> items) {
  found_->unanswered.insert(found_->unanswered.end(), items.begin(), items.end());
}

}  // namespace peercache
