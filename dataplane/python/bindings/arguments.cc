#include "bindings/arguments.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>

namespace py = pybind11;

namespace peercache::bindings {
namespace {

constexpr size_t kHexDigits = 64;

// Value of each character as a hex digit; kNoDigit of any other. A table, because branches on
// digits of a hash are guessed wrongly half the time.
constexpr uint8_t kNoDigit = 0xf0;
constexpr auto kDigits = [] {
  std::array<uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (uint8_t i = 0; i < 10; ++i) digits['0' + i] = i;
  for (uint8_t i = 0; i < 6; ++i) digits['a' + i] = digits['A' + i] = 10 + i;
  return digits;
}();

// XORs onto the key what `kHexDigits` digits at `text` stand for; false when some are no digits.
bool XorHex(const char* text, Key* key) {
  uint8_t seen = 0;
  for (uint8_t& byte : key->bytes) {
    const uint8_t high = kDigits[static_cast<uint8_t>(*text++)];
    const uint8_t low = kDigits[static_cast<uint8_t>(*text++)];
    seen |= high | low;
    byte ^= static_cast<uint8_t>(high << 4 | low);
  }
  return seen < kNoDigit;
}

// XORs onto the key a hash of 32 bytes; false when the object is something else.
bool XorBytes(PyObject* object, Key* key) {
  if (!PyBytes_Check(object) ||
      static_cast<size_t>(PyBytes_GET_SIZE(object)) != key->bytes.size()) {
    return false;
  }
  const char* from = PyBytes_AS_STRING(object);
  for (uint8_t& byte : key->bytes) byte ^= static_cast<uint8_t>(*from++);
  return true;
}

// The text of a str, or nothing. Valid while the object lives.
std::string_view Text(PyObject* object) {
  Py_ssize_t length = 0;
  const char* data = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &length) : nullptr;
  if (data == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {data, static_cast<size_t>(length)};
}

// A list or tuple as it is, any other sequence as a list; null (and no Python error) otherwise.
py::object Fast(const py::handle& object) {
  PyObject* fast = object ? PySequence_Fast(object.ptr(), "") : nullptr;
  if (fast == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(fast);
}

std::span<PyObject*> Items(const py::object& fast) {
  return {PySequence_Fast_ITEMS(fast.ptr()),
          static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.ptr()))};
}

bool Unsigned(PyObject* object, uint64_t* value) {
  *value = PyLong_AsUnsignedLongLong(object);
  if (*value != static_cast<uint64_t>(-1) || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

Status BadNumber(std::string_view argument, size_t index) {
  return InvalidArgument(fmt::format("{}[{}] is not an integer of 0..2^64-1", argument, index));
}

Result<Key> ParsePrefix(const py::handle& prefix) {
  Key key;
  char* data = nullptr;
  Py_ssize_t length = 0;
  if (!PyBytes_Check(prefix.ptr()) || PyBytes_AsStringAndSize(prefix.ptr(), &data, &length) != 0) {
    PyErr_Clear();
    return InvalidArgument("prefix is not of type bytes");
  }
  if (static_cast<size_t>(length) != key.bytes.size()) {
    return InvalidArgument(fmt::format("prefix has {} bytes instead of 32", length));
  }
  std::memcpy(key.bytes.data(), data, key.bytes.size());
  return key;
}

}  // namespace

Result<std::vector<Key>> ParseKeys(const py::handle& prefix, const py::handle& keys) {
  const auto digest = ParsePrefix(prefix);
  if (!digest.ok()) return digest.status();
  const py::object fast = Fast(keys);
  if (!fast) return InvalidArgument("keys is not a sequence");
  const auto items = Items(fast);
  // The strings of a long prompt lie all over the heap: two lines of cache each, fetched at once.
  for (PyObject* item : items) {
    __builtin_prefetch(item);
    __builtin_prefetch(reinterpret_cast<const char*>(item) + 64);
  }
  std::vector<Key> parsed(items.size(), *digest);
  for (size_t i = 0; i < items.size(); ++i) {
    if (XorBytes(items[i], &parsed[i])) continue;
    const std::string_view text = Text(items[i]);
    if (text.size() != kHexDigits || !XorHex(text.data(), &parsed[i])) {
      return InvalidArgument(fmt::format("keys[{}] \"{}\" is neither 64 hex digits nor 32 bytes", i,
                                         text.substr(0, 80)));
    }
  }
  return parsed;
}

Result<KeysOfEach> ParseKeysOfEach(const py::handle& prefixes, const py::handle& keys) {
  const py::object fast = Fast(prefixes);
  if (!fast || Items(fast).empty()) return InvalidArgument("prefixes is not a sequence of bytes");
  const auto items = Items(fast);
  auto first = ParseKeys(items[0], keys);  // the texts are read once
  if (!first.ok()) return first.status();
  const auto from = ParsePrefix(items[0]);
  KeysOfEach all{items.size(), std::move(*first)};
  const size_t each = all.keys.size();
  all.keys.reserve(each * items.size());
  for (size_t p = 1; p < items.size(); ++p) {
    auto difference = ParsePrefix(items[p]);
    if (!difference.ok()) return difference.status();
    for (size_t b = 0; b < difference->bytes.size(); ++b) difference->bytes[b] ^= from->bytes[b];
    for (size_t i = 0; i < each; ++i) {
      Key& key = all.keys.emplace_back(all.keys[i]);
      for (size_t b = 0; b < key.bytes.size(); ++b) key.bytes[b] ^= difference->bytes[b];
    }
  }
  return all;
}

Result<std::vector<Segment>> ParseSegments(const py::handle& ptrs, const py::handle& sizes) {
  const py::object fast_ptrs = Fast(ptrs);
  const py::object fast_sizes = Fast(sizes);
  if (!fast_ptrs || !fast_sizes) return InvalidArgument("ptrs or sizes is not a sequence");
  const auto addresses = Items(fast_ptrs);
  const auto lengths = Items(fast_sizes);
  if (addresses.size() != lengths.size()) {
    return InvalidArgument(fmt::format("{} ptrs but {} sizes", addresses.size(), lengths.size()));
  }
  std::vector<Segment> segments(addresses.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!Unsigned(addresses[i], &segments[i].address)) return BadNumber("ptrs", i);
    if (!Unsigned(lengths[i], &segments[i].length)) return BadNumber("sizes", i);
  }
  return segments;
}

Counting CountingOf(PageTokens page_tokens) {
  return {page_tokens.value_or(0), page_tokens.has_value()};
}

py::list ToBools(std::span<const uint8_t> flags) {
  py::list list(flags.size());
  for (size_t i = 0; i < flags.size(); ++i) list[i] = py::bool_(flags[i] != 0);
  return list;
}

}  // namespace peercache::bindings
