// Arguments of the bindings, taken out of Python objects without a copy per element and without an
// exception: every conversion answers with what is wrong, naming the argument and its index.
//
// All functions need the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/status.h"
#include "client/client.h"

namespace peercache::bindings {

// The key of a page: its hash (64 hex digits, or 32 bytes) XOR the digest of its namespace. Within
// a namespace the map is one to one, so it cannot make two pages collide.
Result<std::vector<Key>> ParseKeys(const pybind11::handle& prefix, const pybind11::handle& keys);

// The same under each of several prefixes, one after the other.
struct KeysOfEach {
  size_t prefixes = 0;  // at least one
  std::vector<Key> keys;
};
Result<KeysOfEach> ParseKeysOfEach(const pybind11::handle& prefixes, const pybind11::handle& keys);

// Pairs of equally long sequences of addresses and lengths.
Result<std::vector<Segment>> ParseSegments(const pybind11::handle& ptrs,
                                           const pybind11::handle& sizes);

// For the node's hit ratio: tokens of a page, 0 when not known; none when other calls count these
// pages.
using PageTokens = std::optional<uint32_t>;
Counting CountingOf(PageTokens page_tokens);

pybind11::list ToBools(std::span<const uint8_t> flags);

}  // namespace peercache::bindings
