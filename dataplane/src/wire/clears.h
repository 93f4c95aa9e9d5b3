// Clears: what nodes tell each other of the clears that engines have made, so that a member that
// was away hears of those it has missed (membership/clear_table.h, docs/dev/protocol.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/tag.h"
#include "wire/frame.h"

namespace peercache {

// The last clear of a tag. Flat.
struct ClearEntry {
  uint64_t tag = 0;
  uint64_t epoch = 0;  // 1 to kMaxClearEpoch
  friend bool operator==(const ClearEntry&, const ClearEntry&) = default;
};
static_assert(sizeof(ClearEntry) == 16 && std::is_trivially_copyable_v<ClearEntry>);

inline constexpr uint64_t kMaxClearEpoch = uint64_t{1} << 63;
// Tags whose last clear is remembered one by one. What bounds it is the note of a pool's file, 32
// KiB (pool/pool_file.h).
inline constexpr size_t kMostClears = 500;

struct ClearState {
  std::vector<ForgottenClears> forgotten;  // by group, in their order
  std::vector<ClearEntry> entries;         // one a tag, in epochs above what is forgotten
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
  friend bool operator==(const ClearState&, const ClearState&) = default;
};

// What is forgotten there of the group; in epoch 0, nothing.
inline ForgottenClears ForgottenIn(const ClearState& state, uint64_t group) {
  const auto it = std::ranges::find(state.forgotten, group, &ForgottenClears::group);
  return it == state.forgotten.end() ? ForgottenClears{group} : *it;
}
// Of the last clear of the tag that is known there.
inline uint64_t EpochIn(const ClearState& state, uint64_t tag) {
  const auto it = std::ranges::find(state.entries, tag, &ClearEntry::tag);
  return it == state.entries.end() ? ForgottenIn(state, GroupOf(tag)).epoch : it->epoch;
}

// What a node knows, in short.
struct ClearsVoice {
  uint64_t digest = 0;  // of its ClearState; 0: it knows of no clear
  uint8_t current = 0;  // 1: it has been in contact all the time, or has caught up since
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// Of a set of members (NodeHashes), in any order. Never 0.
uint32_t MarkOf(std::span<const uint64_t> members);

// The request: tells clears, and asks for those that the other knows.
struct ClearsMessage {
  enum Kind : uint8_t {
    kTable = 0,  // all that the sender knows
    kMade = 1,   // a clear that an engine makes now
    kHeard = 2,  // all members of the sender's view know that clear but `unheard` (NodeHashes)
  };
  ClearState state;
  uint8_t kind = kTable;
  std::vector<uint64_t> unheard;
  // Of kHeard: MarkOf the sender's view as it has asked it. 0: not told, as by older releases. It
  // is FrameHeader::number; not part of the body.
  uint32_t view = 0;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
// Its answer: all clears that this node has applied by now.
struct ClearsAnswer {
  ClearState state;
  uint8_t current = 0;
  // The pages are gone, but the drives have not recorded the clear that was told. It is a flag of
  // FrameHeader::can; not part of the body.
  static constexpr uint16_t kNoted = 1;
  bool noted = false;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

}  // namespace peercache
