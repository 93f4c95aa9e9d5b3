// Tags: what a clear names. A page is set under one, and a clear drops all pages of one.
//
//   group, 10 bits | number in the group, 54 bits
//
// All tags of a tenant are of one group (node/tenant/tenant_key.h). Whoever remembers clears
// remembers so many, and forgets those of the group that has the most. What follows from that is of
// this group alone: so a tenant that clears one tag after another drops no pages but its own, and
// those of tenants that share its group. Two tenants do with a chance of 1 in 1,023.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace peercache {

inline constexpr int kTagNumberBits = 54;
inline constexpr size_t kTagGroups = size_t{1} << (64 - kTagNumberBits);

constexpr uint64_t GroupOf(uint64_t tag) { return tag >> kTagNumberBits; }
constexpr uint64_t TagIn(uint64_t group, uint64_t number) {
  return group << kTagNumberBits | (number & ((uint64_t{1} << kTagNumberBits) - 1));
}

// A tag, or all of a group.
struct TagRange {
  uint64_t first = 0, last = 0;

  // NOLINTNEXTLINE(google-explicit-constructor): a tag is the range of itself.
  constexpr TagRange(uint64_t tag) : first(tag), last(tag) {}
  static constexpr TagRange OfGroup(uint64_t group) {
    return {TagIn(group, 0), TagIn(group, UINT64_MAX)};
  }
  constexpr bool one() const { return first == last; }
  constexpr bool Has(uint64_t tag) const { return first <= tag && tag <= last; }
  friend auto operator<=>(const TagRange&, const TagRange&) = default;

 private:
  constexpr TagRange(uint64_t first_tag, uint64_t last_tag) : first(first_tag), last(last_tag) {}
};

// Clears of a group that nobody has to remember one by one any more. Flat.
struct ForgottenClears {
  uint64_t group = 0;
  uint64_t epoch = 0;   // each tag of the group may have been cleared in epochs up to this one
  uint64_t digest = 0;  // of these clears (membership/clear_table.h). 0: it is not known which
  friend bool operator==(const ForgottenClears&, const ForgottenClears&) = default;
};
static_assert(sizeof(ForgottenClears) == 24);

}  // namespace peercache
