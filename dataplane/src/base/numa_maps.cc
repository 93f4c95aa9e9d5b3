#include "base/numa_maps.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/small_file.h"

namespace peercache {
namespace {

// Takes what stands before the next separator off the beginning of `rest`.
std::string_view Cut(std::string_view* rest, char separator) {
  const size_t end = std::min(rest->find(separator), rest->size());
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return part;
}

std::optional<uintptr_t> Address(std::string_view text) {
  uintptr_t address = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), address, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return address;
}

struct Bytes {
  uint64_t on_node = 0, elsewhere = 0;
};

// Of a line behind the address: the policy, and then names with values or without. Spaces in the
// name of a file are written as \040.
Bytes BytesOfLine(std::string_view rest, int node) {
  Bytes pages;
  uint64_t page_bytes = 0;
  while (!rest.empty()) {
    std::string_view value = Cut(&rest, ' ');
    const std::string_view name = Cut(&value, '=');
    const uint64_t number = ParseLeadingNumber<uint64_t>(value).value_or(0);
    if (name == "kernelpagesize_kB") page_bytes = number << 10;
    if (!name.starts_with('N')) continue;
    if (const auto id = ParseLeadingNumber<int>(name.substr(1)))
      (*id == node ? pages.on_node : pages.elsewhere) += number;
  }
  return {pages.on_node * page_bytes, pages.elsewhere * page_bytes};
}

}  // namespace

NumaSample SumNumaMaps(std::string_view text, std::span<const std::byte> mapping, int node,
                       size_t samples) {
  const auto begin = reinterpret_cast<uintptr_t>(mapping.data());
  bool found = false;
  Bytes sum;
  while (!text.empty()) {
    std::string_view line = Cut(&text, '\n');
    const auto address = Address(Cut(&line, ' '));
    if (!address || *address < begin || *address - begin >= mapping.size()) continue;
    found |= *address == begin;
    // The kernel splits a mapping whose parts it was told different things about.
    const Bytes part = BytesOfLine(line, node);
    sum.on_node += part.on_node;
    sum.elsewhere += part.elsewhere;
  }
  if (!found || node < 0) return {.source = NumaSource::kRefused};
  const auto share = [&](uint64_t bytes) {
    const auto part = static_cast<double>(bytes) / static_cast<double>(mapping.size());
    return std::min(samples, static_cast<size_t>(part * static_cast<double>(samples) + 0.5));
  };
  NumaSample sample{.source = NumaSource::kNumaMaps};
  sample.elsewhere = share(sum.elsewhere);
  sample.on_node = std::min(samples - sample.elsewhere, share(sum.on_node));
  sample.absent = samples - sample.elsewhere - sample.on_node;
  return sample;
}

NumaSample ReadNumaMaps(std::span<const std::byte> mapping, int node, const std::string& path) {
  return SumNumaMaps(ReadSmallFile(path), mapping, node);
}

}  // namespace peercache
