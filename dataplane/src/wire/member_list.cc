// Members as they travel: alone in a heartbeat, and all of them in a host's answer.

#include <xxhash.h>

#include <algorithm>
#include <unordered_map>

#include "wire/messages.h"

namespace peercache {
namespace {

void PutList(std::span<const uint64_t> numbers, FrameWriter* w) {
  w->Put(static_cast<uint32_t>(numbers.size()));
  w->PutSpan(numbers);
}

SharedList GetList(FrameReader* r, size_t most) {
  std::vector<uint64_t> numbers;
  r->GetInto(r->GetCount(static_cast<uint32_t>(most)), &numbers);
  return numbers;
}

void PutIdentity(const Member& member, FrameWriter* w) {
  w->PutString(member.id);
  w->Put(member.incarnation);
  w->Put(static_cast<uint8_t>(member.state));
  w->PutString(member.host);
  w->Put(member.peer_port);
  w->Put(member.http_port);
  w->Put(member.capacity_bytes);
}

bool GetIdentity(FrameReader* r, Member* member) {
  member->id = r->GetName(kMaxMemberIdBytes);
  member->incarnation = r->Get<uint64_t>();
  const auto state = r->Get<uint8_t>();
  member->host = r->GetName(kMaxIdBytes);
  member->peer_port = r->Get<uint16_t>();
  member->http_port = r->Get<uint16_t>();
  member->capacity_bytes = r->Get<uint64_t>();
  if (state > static_cast<uint8_t>(MemberState::kDraining)) return false;
  member->state = static_cast<MemberState>(state);
  return r->ok();
}

std::span<const uint64_t> Cut(const SharedList& list, size_t most) {
  return list.numbers().first(std::min(most, list.size()));
}

// The distinct lists of an answer, in the order of their first use.
class Distinct {
 public:
  // The place of `list`, from 1; 0 for an empty one.
  uint32_t PlaceOf(const SharedList& list) {
    if (list.empty()) return 0;
    const auto [known, unknown] = by_identity_.try_emplace(list.identity(), 0);
    if (!unknown) return known->second;
    const bool fits = whole_ + list.size() <= MemberListMessage::kMostWhole;
    const uint32_t place = Add(Cut(list, fits ? kMostListed : kMostListedBefore));
    return by_identity_[list.identity()] = place;
  }
  std::span<const std::span<const uint64_t>> lists() const { return lists_; }

 private:
  uint32_t Add(std::span<const uint64_t> numbers) {
    const auto next = static_cast<uint32_t>(lists_.size() + 1);
    const auto [it, added] =
        by_digest_.try_emplace(XXH3_64bits(numbers.data(), numbers.size_bytes()), next);
    // Two lists of one digest are two lists.
    if (!added && std::ranges::equal(numbers, lists_[it->second - 1])) return it->second;
    lists_.push_back(numbers);
    if (numbers.size() > kMostListedBefore) whole_ += numbers.size();
    return next;
  }

  std::unordered_map<const void*, uint32_t> by_identity_;
  std::unordered_map<uint64_t, uint32_t> by_digest_;
  std::vector<std::span<const uint64_t>> lists_;
  size_t whole_ = 0;  // entries of lists that older releases would not read
};

}  // namespace

void EncodeMember(const Member& member, size_t most, FrameWriter* w) {
  PutIdentity(member, w);
  PutList(Cut(member.synced, most), w);
  PutList(Cut(member.unreachable, most), w);
}
bool DecodeMember(FrameReader* r, size_t most, Member* member) {
  if (!GetIdentity(r, member)) return false;
  member->synced = GetList(r, most);
  member->unreachable = GetList(r, most);
  return r->ok();
}

void MemberListMessage::Encode(FrameWriter* w) const {
  w->Put(warming);
  w->Put(static_cast<uint32_t>(members.size()));
  for (const auto& listed : members) {
    EncodeMember(listed.member, kMostListedBefore, w);
    w->Put(listed.age_ns);
  }
}
bool MemberListMessage::Decode(FrameReader* r) {
  warming = r->Get<uint8_t>();
  members.resize(r->GetCount(kMaxMembers));
  for (auto& listed : members) {
    if (!DecodeMember(r, kMostListedBefore, &listed.member)) return false;
    listed.age_ns = r->Get<int64_t>();
    if (listed.age_ns < 0) return false;
  }
  return r->AtEnd();
}

void MemberListMessage::EncodeOnce(FrameWriter* w) const {
  struct Places {
    uint32_t synced, unreachable;
  };
  Distinct distinct;
  std::vector<Places> places;
  places.reserve(members.size());
  for (const auto& [member, age] : members) {
    const uint32_t synced = distinct.PlaceOf(member.synced);
    places.push_back({synced, distinct.PlaceOf(member.unreachable)});
  }
  w->Put(warming);
  w->Put(static_cast<uint32_t>(distinct.lists().size()));
  for (const auto numbers : distinct.lists()) PutList(numbers, w);
  w->Put(static_cast<uint32_t>(members.size()));
  for (size_t i = 0; i < members.size(); ++i) {
    PutIdentity(members[i].member, w);
    w->Put(places[i]);
    w->Put(members[i].age_ns);
  }
}
bool MemberListMessage::DecodeOnce(FrameReader* r) {
  warming = r->Get<uint8_t>();
  std::vector<SharedList> lists(1);  // the first is the empty one
  for (uint32_t left = r->GetCount(2 * kMaxMembers); left > 0 && r->ok(); --left)
    lists.push_back(GetList(r, kMostListed));
  members.resize(r->GetCount(kMaxMembers));
  for (auto& [member, age_ns] : members) {
    if (!GetIdentity(r, &member)) return false;
    const auto synced = r->Get<uint32_t>();
    const auto unreachable = r->Get<uint32_t>();
    if (synced >= lists.size() || unreachable >= lists.size()) return false;
    member.synced = lists[synced];
    member.unreachable = lists[unreachable];
    age_ns = r->Get<int64_t>();
    if (age_ns < 0) return false;
  }
  return r->AtEnd();
}

}  // namespace peercache
