#include "wire/clears.h"

#include <algorithm>
#include <span>

namespace peercache {
namespace {

constexpr uint32_t kMaxUnheard = 4096;  // as many as there are members

bool CanBe(uint64_t epoch) { return epoch > 0 && epoch <= kMaxClearEpoch; }

}  // namespace

// While nothing is forgotten it begins as that of releases which knew no groups: with 8 bytes of 0.
void ClearState::Encode(FrameWriter* w) const {
  w->Put(uint64_t{forgotten.size()});
  w->PutSpan(std::span<const ForgottenClears>(forgotten));
  w->Put(static_cast<uint32_t>(entries.size()));
  w->PutSpan(std::span<const ClearEntry>(entries));
}
bool ClearState::Decode(FrameReader* r) {
  const auto groups = r->Get<uint64_t>();
  if (!r->ok() || groups > kTagGroups) return false;
  r->GetInto(static_cast<uint32_t>(groups), &forgotten);
  r->GetInto(r->GetCount(kMostClears), &entries);
  const bool in_order = std::ranges::adjacent_find(forgotten, std::ranges::greater_equal{},
                                                   &ForgottenClears::group) == forgotten.end();
  return r->ok() && in_order && (forgotten.empty() || forgotten.back().group < kTagGroups) &&
         std::ranges::all_of(forgotten, CanBe, &ForgottenClears::epoch) &&
         std::ranges::all_of(entries, CanBe, &ClearEntry::epoch);
}

void ClearsVoice::Encode(FrameWriter* w) const {
  w->Put(digest);
  w->Put(current);
}
bool ClearsVoice::Decode(FrameReader* r) {
  digest = r->Get<uint64_t>();
  current = r->Get<uint8_t>();
  return r->AtEnd() && current <= 1;
}

uint32_t MarkOf(std::span<const uint64_t> members) {
  uint64_t sum = 0;
  for (const uint64_t member : members) sum += member;
  const auto mark = static_cast<uint32_t>(sum ^ sum >> 32);
  return mark == 0 ? 1 : mark;
}

void ClearsMessage::Encode(FrameWriter* w) const {
  w->View(view);
  state.Encode(w);
  w->Put(kind);
  w->Put(static_cast<uint32_t>(unheard.size()));
  w->PutSpan(std::span<const uint64_t>(unheard));
}
bool ClearsMessage::Decode(FrameReader* r) {
  if (!state.Decode(r)) return false;
  kind = r->Get<uint8_t>();
  r->GetInto(r->GetCount(kMaxUnheard), &unheard);
  return r->AtEnd() && kind <= kHeard;
}

void ClearsAnswer::Encode(FrameWriter* w) const {
  w->Can(noted ? kNoted : 0);
  state.Encode(w);
  w->Put(current);
}
bool ClearsAnswer::Decode(FrameReader* r) {
  if (!state.Decode(r)) return false;
  current = r->Get<uint8_t>();
  return r->AtEnd() && current <= 1;
}

}  // namespace peercache
