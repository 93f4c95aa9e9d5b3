// CrashMark: a word of memory that outlives the process, and says afterwards that a fault of its
// own ended it (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT), with the number of the signal. A process
// that faults may have written anywhere before. One that was killed has not.
//
//   CrashMark::Install();                 // once, before other handlers of these signals
//   CrashMark mark(&header->crashed);     // until this object goes
//
// What faults behind the end of its stack leaves no mark unless its thread has a signal stack: it
// has met the guard page, and written nowhere.
#pragma once

#include <atomic>
#include <cstdint>

namespace peercache {

class CrashMark {
 public:
  // Handlers that are there already are called afterwards, as are the defaults.
  static void Install();

  explicit CrashMark(std::atomic<uint32_t>* word);
  ~CrashMark();
  CrashMark(const CrashMark&) = delete;
  CrashMark& operator=(const CrashMark&) = delete;

 private:
  std::atomic<uint32_t>* const word_;
};

}  // namespace peercache
