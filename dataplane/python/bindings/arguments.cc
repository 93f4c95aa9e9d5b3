#include "bindings/arguments.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

namespace py = pybind11;

namespace peercache::bindings {
namespace {

constexpr size_t kHexDigits = 64;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
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
  std::vector<Key> parsed(items.size(), *digest);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string_view text = Text(items[i]);
    bool valid = text.size() == kHexDigits;
    for (size_t byte = 0; valid && byte < kHexDigits / 2; ++byte) {
      const int high = HexDigit(text[2 * byte]);
      const int low = HexDigit(text[2 * byte + 1]);
      valid = high >= 0 && low >= 0;
      parsed[i].bytes[byte] ^= static_cast<uint8_t>((high << 4 | low) & 0xff);
    }
    if (!valid) {
      return InvalidArgument(
          fmt::format("keys[{}] \"{}\" is not 64 hex digits", i, text.substr(0, 80)));
    }
  }
  return parsed;
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

py::list ToBools(std::span<const uint8_t> flags) {
  py::list list(flags.size());
  for (size_t i = 0; i < flags.size(); ++i) list[i] = py::bool_(flags[i] != 0);
  return list;
}

}  // namespace peercache::bindings
