// Fingerprint: all that must be the same for a process to go on with the pool of another one, as
// names and values. As text it is a line "name=value" for each. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache {

using Fingerprint = std::vector<std::pair<std::string, std::string>>;

std::string FingerprintText(const Fingerprint& fingerprint);

// What is not the same, for a person: "pool-size was 32Mi and is 64Mi"; empty: nothing. `was` may
// be any bytes.
std::string FingerprintDifference(std::string_view was, const Fingerprint& is);

}  // namespace peercache
