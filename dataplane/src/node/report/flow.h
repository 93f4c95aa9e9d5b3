// What the counters of a node become in a Flow (wire/activity.h): its names, and its JSON. Pure.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "node/count/counters.h"
#include "wire/activity.h"

namespace peercache {

// Of Flow::delivered, by PageSource; and of Flow::missed. Places keep their meaning from release to
// release: heartbeats carry them. New names go to the end.
inline constexpr std::array<const char*, kPageSources> kTierNames = {
    "nowhere", "local", "replica", "shared", "tcp", "rdma", "mapped", "disk"};
inline constexpr std::array<const char*, 13> kReasonNames = {
    "not_found",     "absent",   "unreachable", "stale",  "lease_expired",
    "engine_memory", "checksum", "not_joined",  "behind", "given_up",
    "disk_late",     "bypass",   "slower"};
static_assert(kTierNames.size() <= Flow::kMostTiers && kReasonNames.size() <= Flow::kMostReasons);

// Since the start.
Flow FlowOf(const Counters& counters, uint64_t evicted);
// What came to `before` until `now`; 0 where a number has not grown.
Flow Between(const Flow& before, const Flow& now);

// The time that `share` of the calls took at most, as far as the buckets tell; empty: no calls.
std::optional<double> QuantileSeconds(std::span<const uint64_t, Flow::kBuckets> calls,
                                      double share);

// Pages by tier and by reason, by name.
nlohmann::json TiersJson(const Flow& flow);
nlohmann::json ReasonsJson(const Flow& flow);
// Of `flow` in `seconds`: bytes for each second, pages, and quantiles of calls.
nlohmann::json FlowJson(const Flow& flow, double seconds);

}  // namespace peercache
