#include "wire/clears.h"

#include <algorithm>
#include <span>

namespace peercache {
namespace {

constexpr uint32_t kMaxUnheard = 4096;  // as many as there are members

}  // namespace

void ClearState::Encode(FrameWriter* w) const {
  w->Put(floor);
  w->Put(static_cast<uint32_t>(entries.size()));
  w->PutSpan(std::span<const ClearEntry>(entries));
}
bool ClearState::Decode(FrameReader* r) {
  floor = r->Get<uint64_t>();
  r->GetInto(r->GetCount(kMostClears), &entries);
  return r->ok() && floor <= kMaxClearEpoch &&
         std::ranges::all_of(entries, [](const ClearEntry& entry) {
           return entry.epoch > 0 && entry.epoch <= kMaxClearEpoch;
         });
}

void ClearState::EncodeForgotten(FrameWriter* w) const {
  if (forgotten != 0) w->Put(forgotten);
}
bool ClearState::DecodeForgotten(FrameReader* r) {
  forgotten = 0;
  if (r->AtEnd()) return true;
  forgotten = r->Get<uint64_t>();
  return r->AtEnd() && forgotten != 0 && floor != 0;
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
  state.EncodeForgotten(w);
}
bool ClearsMessage::Decode(FrameReader* r) {
  if (!state.Decode(r)) return false;
  kind = r->Get<uint8_t>();
  r->GetInto(r->GetCount(kMaxUnheard), &unheard);
  return state.DecodeForgotten(r) && kind <= kHeard;
}

void ClearsAnswer::Encode(FrameWriter* w) const {
  state.Encode(w);
  w->Put(current);
  state.EncodeForgotten(w);
}
bool ClearsAnswer::Decode(FrameReader* r) {
  if (!state.Decode(r)) return false;
  current = r->Get<uint8_t>();
  return state.DecodeForgotten(r) && current <= 1;
}

}  // namespace peercache
