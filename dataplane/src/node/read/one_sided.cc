#include "node/read/one_sided.h"

#include <algorithm>
#include <array>

namespace peercache {
namespace {

// Of the time that a grant may last: so the next one is there long before it ends.
constexpr int kRenewShare = 3;
// A node that does not know of buckets, or has none, is not asked again for so long.
constexpr Duration kLeaveAlone = std::chrono::seconds(10);

}  // namespace

OneSidedLookups::OneSidedLookups(Duration owner_ttl, Fabric* fabric, Peers* peers,
                                 Counters* counters)
    : owner_ttl_(owner_ttl), fabric_(fabric), peers_(peers), counters_(counters) {}

std::shared_ptr<const Grant> OneSidedLookups::Use(const Peer& peer, TimePoint now, bool* due) {
  const uint64_t incarnation = peer.incarnation();
  std::lock_guard lock(mutex_);
  DropOld(now);
  Known& known = known_[peer.node()];
  *due = now >= known.due;
  if (*due) known.due = now + owner_ttl_ / kRenewShare;
  if (known.grant && (known.grant->incarnation() != incarnation || !known.grant->Lasts(now)))
    known.grant.reset();
  return known.grant;
}

// Of nodes that nobody has looked anything up at for so long.
void OneSidedLookups::DropOld(TimePoint now) {
  if (now < drop_at_) return;
  drop_at_ = now + owner_ttl_;
  std::erase_if(known_, [&](const auto& known) { return now >= known.second.due + owner_ttl_; });
}

void OneSidedLookups::Take(const PeerCall& call, TimePoint asked) {
  std::shared_ptr<const Grant> grant;
  const bool silent =
      call.status.code() == Code::kUnavailable || call.status.code() == Code::kDeadlineExceeded;
  DirectoryOk said;
  FrameReader reader = call.answer;
  if (call.status.ok() && said.Decode(&reader) && said.buckets != 0)
    grant = std::make_shared<const Grant>(std::move(said), call.answered_by, asked, owner_ttl_);
  // What a silent shard has granted before lasts as long as it does.
  if (silent) return;
  std::lock_guard lock(mutex_);
  Known& known = known_[call.peer->node()];
  if (grant == nullptr) known.due = asked + kLeaveAlone;
  known.grant = std::move(grant);
}

std::vector<OneSidedLookups::Look> OneSidedLookups::LookUp(std::span<const Look> looks,
                                                           std::span<const Key> keys,
                                                           std::span<Record> records,
                                                           std::vector<OtherRecord>* others,
                                                           std::span<const uint64_t> exclude,
                                                           TimePoint now, TimePoint deadline) {
  std::vector<Look> rest;
  if (looks.empty()) return rest;
  std::vector<std::array<std::byte, sizeof(Bucket)>> buckets(looks.size());
  std::vector<BareRead> reads(looks.size());
  for (size_t i = 0; i < looks.size(); ++i) {
    const Look& look = looks[i];
    reads[i] = {.node = look.node,
                .incarnation = look.grant->incarnation(),
                .offset = look.grant->OffsetOf(keys[look.index]),
                .to = buckets[i]};
  }
  fabric_->ReadBare(reads, deadline);
  uint64_t unread = 0;
  std::array<uint64_t, 5> answers{};  // by BucketAnswer
  for (size_t i = 0; i < looks.size(); ++i) {
    const Look& look = looks[i];
    if (!reads[i].done) {
      ++unread;
      rest.push_back(look);
      continue;
    }
    const BucketAnswer answer =
        LookUpIn(buckets[i], *look.grant, keys[look.index], peers_->self(), exclude, now,
                 &records[look.index], others, static_cast<uint32_t>(look.index));
    ++answers[static_cast<size_t>(answer)];
    if (answer != BucketAnswer::kFound && answer != BucketAnswer::kAbsent) rest.push_back(look);
  }
  const auto count = [&](BucketAnswer answer) { return answers[static_cast<size_t>(answer)]; };
  counters_->looked_up.Add(count(BucketAnswer::kFound) + count(BucketAnswer::kAbsent));
  counters_->look_torn.Add(count(BucketAnswer::kTorn));
  counters_->look_elsewhere.Add(count(BucketAnswer::kElsewhere));
  counters_->look_ungranted.Add(count(BucketAnswer::kUngranted));
  counters_->look_unread.Add(unread);
  return rest;
}

}  // namespace peercache
