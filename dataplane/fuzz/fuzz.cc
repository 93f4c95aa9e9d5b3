#include "fuzz.h"

#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace peercache::fuzz {
namespace {

Reached* all_reached = nullptr;  // filled before main, by statics

uint16_t Word(Input bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }

}  // namespace

void Fail(const char* what) {
  std::fprintf(stderr, "a property does not hold: %s\n", what);
  std::abort();
}

void PrintReached() {
  for (const Reached* r = all_reached; r != nullptr; r = r->next_) {
    std::fprintf(stderr, "reached %llu %s\n", static_cast<unsigned long long>(r->count_), r->name_);
  }
}

Reached::Reached(const char* name) : name_(name), next_(all_reached) {
  if (all_reached == nullptr) std::atexit(PrintReached);
  all_reached = this;
}

bool Reached::All() {
  const Reached* r = all_reached;
  while (r != nullptr && r->count_ > 0) r = r->next_;
  return r == nullptr;
}

bool Script::Next(Step* step) {
  constexpr size_t kHead = 4;
  if (rest_.size() < kHead) return false;
  step->operation = rest_[0];
  step->argument = rest_[1];
  const size_t length = std::min<size_t>(Word(rest_.subspan(2)), rest_.size() - kHead);
  step->bytes = rest_.subspan(kHead, length);
  rest_ = rest_.subspan(kHead + length);
  return true;
}

void AppendStep(uint8_t operation, uint8_t argument, ConstBytes bytes, std::vector<uint8_t>* out) {
  Require(bytes.size() <= UINT16_MAX, "a step has at most 65535 bytes");
  const auto length = static_cast<uint16_t>(bytes.size());
  out->insert(out->end(), {operation, argument, static_cast<uint8_t>(length),
                           static_cast<uint8_t>(length >> 8)});
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  out->insert(out->end(), data, data + bytes.size());
}

void ApplyEdits(Input edits, std::span<std::byte> body) {
  for (; edits.size() >= 3; edits = edits.subspan(3)) {
    if (const uint16_t at = Word(edits); at < body.size()) body[at] = std::byte{edits[2]};
  }
}

void SetUp() {
  [[maybe_unused]] static const bool once = [] {
    spdlog::set_level(spdlog::level::off);
    std::signal(SIGPIPE, SIG_IGN);
    InstallCopyGuard();
    return true;
  }();
}

}  // namespace peercache::fuzz
