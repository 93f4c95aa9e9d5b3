// What the fuzz targets share. A target is one file NAME_fuzz.cc that defines
// LLVMFuzzerTestOneInput; README.md says how it is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/copy.h"

namespace peercache::fuzz {

using Input = std::span<const uint8_t>;

inline ConstBytes AsBytes(Input input) { return std::as_bytes(input); }

// Ends the process with `what`: a property does not hold.
[[noreturn]] void Fail(const char* what);
inline void Require(bool holds, const char* what) {
  if (!holds) Fail(what);
}

// A place that inputs must get to, or the target tests nothing. At namespace scope, so that it is
// known before it is reached: the process prints "reached COUNT NAME" for all of them when it ends,
// and both run.sh and the replay of the kept corpus fail when one is 0.
class Reached {
 public:
  explicit Reached(const char* name);
  void Hit() { ++count_; }
  static bool All();

 private:
  friend void PrintReached();
  const char* name_;
  uint64_t count_ = 0;
  Reached* next_;
};

// An input as a list of steps, each {operation, argument, length (2 bytes), bytes}. The last one
// may be cut off, so that every input is a script.
struct Step {
  uint8_t operation = 0, argument = 0;
  Input bytes;
};
class Script {
 public:
  explicit Script(Input input) : rest_(input) {}
  // False at the end.
  bool Next(Step* step);

 private:
  Input rest_;
};
// For the generator of the corpus.
void AppendStep(uint8_t operation, uint8_t argument, ConstBytes bytes, std::vector<uint8_t>* out);

// Overwrites single bytes of `body`: edits are {position (2 bytes), value}. This is how an input
// damages a message that the target has filled with values only it knows, e.g. generations.
void ApplyEdits(Input edits, std::span<std::byte> body);

// Once per process: no log, SIGBUS guarded as in peercached.
void SetUp();

}  // namespace peercache::fuzz
