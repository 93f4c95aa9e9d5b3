// ScriptedServer: the other side of a client under test. It says what a script tells it to, on one
// connection after another, without listening to what it is told.
#pragma once

#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "fuzz.h"

namespace peercache::fuzz {

using Blob = std::vector<uint8_t>;  // what is sent on one connection

class ScriptedServer {
 public:
  enum class Afterwards : uint8_t { kHalfClose, kStay };
  // Serves for ever: make it once, and never destroy it.
  explicit ScriptedServer(UniqueFd listener, Afterwards afterwards = Afterwards::kHalfClose);
  // What the next connections get; those after the last get nothing. Each is half-closed after
  // that, as a rule, and closed when the client closes it or is silent for a while.
  void Answer(std::vector<Blob> connections);

 private:
  void Run();
  Blob Next();

  const UniqueFd listener_;
  const Afterwards afterwards_;
  std::mutex mutex_;
  std::vector<Blob> connections_;
  size_t next_ = 0;
  std::thread thread_;
};

}  // namespace peercache::fuzz
