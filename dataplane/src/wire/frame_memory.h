// FrameMemory: one budget for the memory of all frames of a node that are larger than what every
// connection may have: requests of peers and engines, answers of peers, and answers that wait.
//
//   FrameMemory::Hold hold(&memory);           // one of each connection, and nothing taken yet
//   if (!hold.Ask(frame_size, socket)) ...     // not now: wait, and look at hold.granted()
//   ... receive the frame; hold.Whole(); handle it; hold.Release();
//
// A frame asks for its whole size before it has more memory than kFree, so nobody waits in the
// middle of a frame for what others in the middle of theirs hold. Who asks is served in the order
// of coming. Frames above kLarge have an order of their own and leave kForSmaller to the others:
// somebody who announces large ones keeps nobody from ordinary work.
//
// A holder that has not received its frame kGiveWay after it was granted gives way as soon as
// somebody waits: its socket is shut down, and it releases when it notices. Whoever waits calls
// LookRound now and then, which does that.
//
// Costs: nothing for frames up to kFree. For others a mutex is taken to ask and to release.
// Thread-safe; a Hold is used by one thread at a time, but for what this class does with it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "base/clock.h"
#include "wire/frame.h"

namespace peercache {

struct FrameMemoryStats {
  uint64_t limit = 0, held = 0, most = 0;  // bytes; `most`: held at once since the start
  uint64_t waiting = 0;                    // frames
  uint64_t waited = 0, cut_off = 0;        // in all: frames that were not granted at once, holders
};

class FrameMemory {
 public:
  // What a connection has without asking.
  static constexpr size_t kFree = 32 << 10;
  static constexpr size_t kLarge = 1 << 20;
  static constexpr uint64_t kForSmaller = 8 << 20;
  static constexpr uint64_t kLimit = 32 << 20;
  static_assert(kLimit - kForSmaller >= kMaxBody + sizeof(FrameHeader), "any frame fits");
  static constexpr Duration kGiveWay = milliseconds(500);
  // How often whoever waits looks round: who looks for many, and a thread that is woken when it is
  // granted.
  static constexpr Duration kLook = milliseconds(5);
  static constexpr Duration kLookAsleep = milliseconds(50);

  class Hold {
   public:
    // `memory` outlives the hold; null: there is no budget, and whoever asks is granted.
    explicit Hold(FrameMemory* memory) : memory_(memory) {}
    ~Hold() { Release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    // True: granted. False: it waits now. `socket` stays open until Release. Nothing is held yet.
    bool Ask(size_t bytes, int socket);
    // What is there already, over the budget if need be.
    void Take(size_t bytes, int socket);
    bool granted() const { return state_.load(std::memory_order_acquire) == State::kGranted; }
    bool idle() const { return state_.load(std::memory_order_relaxed) == State::kIdle; }
    // The frame has been received: nobody makes it give way.
    void Whole();
    // What is held is given back; who waits waits no more.
    void Release();
    // Waits until it is granted or the deadline; false at the deadline, and when the other end of
    // the socket is gone.
    bool Await(TimePoint deadline);
    FrameMemory* memory() const { return memory_; }

   private:
    friend class FrameMemory;
    enum class State : uint8_t { kIdle, kWaits, kGranted };
    // Under the mutex.
    void Begin(size_t bytes, int socket, std::list<Hold*>::iterator here);
    FrameMemory* const memory_;
    std::atomic<State> state_{State::kIdle};
    // Under the mutex.
    size_t bytes_ = 0;
    int socket_ = -1;
    bool gives_way_ = false;  // once told
    bool whole_ = false;
    TimePoint granted_at_{};
    std::list<Hold*>::iterator here_;  // in one of the lists
  };

  explicit FrameMemory(uint64_t limit = kLimit) : limit_(limit) {}
  // More is held than the limit: time to take up nothing new. Lock-free.
  bool over() const { return held_.load(std::memory_order_relaxed) > limit_; }
  // Holders that have been too slow give way, if somebody waits.
  void LookRound(TimePoint now);
  FrameMemoryStats stats() const;

 private:
  std::list<Hold*>& Queue(const Hold& hold) { return hold.bytes_ > kLarge ? large_ : small_; }
  bool Fits(const Hold& hold) const;
  void Grant(Hold* hold, TimePoint now);
  void GrantWaiting(TimePoint now);

  const uint64_t limit_;
  std::atomic<uint64_t> held_{0};  // changed under the mutex
  mutable std::mutex mutex_;
  std::condition_variable granted_;
  std::list<Hold*> holders_;  // in the order in which they were granted
  std::list<Hold*> small_, large_;
  uint64_t most_ = 0, waited_ = 0, cut_off_ = 0;
};

}  // namespace peercache
