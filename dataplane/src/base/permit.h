// Permit: a word of memory that an engine shares with its node for each of its connections. It says
// whether the node may touch the engine's pages, and lets the engine take them back from a node
// that does not answer.
//
//   engine                                 node
//   auto permit = Permit::Create();        auto permit = Permit::Map(received_fd);
//   ... send permit->fd() with Attach
//                                          { Permit::Use use(&*permit);
//                                            if (!use) return;  // the engine's again
//                                            ... write into pages ... }
//   permit->Revoke();                      ... read pages ...
//   if (!permit->InUse()) ...              if (permit->revoked()) ...  // they do not count
//
// The rules:
//   - The node writes into pages only inside of a Use, which it counts in the word before it looks
//     whether the permit was revoked. So once an engine has revoked and sees no use, no write is
//     under way and none will begin, whenever the node's threads run again.
//   - The node may read pages at any time. What it has read counts only if the permit was not yet
//     revoked afterwards: the engine changes its pages only after it has revoked.
//   - A permit that was revoked stays so: its connection is at its end.
//
// A process that is stopped (SIGSTOP, a frozen cgroup) inside of a Use keeps it. Uses are therefore
// as short as can be: one copy of one page, one system call that receives, or the READs of one
// batch. Why they cannot be taken away is in docs/dev/protocol.md.
//
// Either side may write anything into the word. A hostile engine can only harm its own calls.
//
// Thread-safe. Lives as long as the connection.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/memory.h"

namespace peercache {

class Permit {
 public:
  static Result<Permit> Create();
  // Refused when the memory could be taken away: only a sealed memfd is taken.
  static Result<Permit> Map(UniqueFd fd);

  int fd() const { return memory_.fd(); }

  // The engine's side.
  void Revoke() {
    word().fetch_or(kRevoked, std::memory_order_acq_rel);
    // What the engine writes from now on, it writes after the revocation.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // Acquire: with no use left, all that the node has written is there.
  bool InUse() const { return (word().load(std::memory_order_acquire) & ~kRevoked) != 0; }

  // The node's side: also says whether the bytes that were read before count.
  bool revoked() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return (word().load(std::memory_order_relaxed) & kRevoked) != 0;
  }

  // Null permit: always granted (memory that no engine can take back).
  class Use {
   public:
    explicit Use(const Permit* permit) : permit_(permit) {
      if (permit_ == nullptr || permit_->Enter()) return;
      permit_->Leave();
      permit_ = nullptr;
      granted_ = false;
    }
    ~Use() {
      if (permit_ != nullptr) permit_->Leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return granted_; }

   private:
    const Permit* permit_;
    bool granted_ = true;
  };
  // The two halves of a Use, for one that does not fit into a scope. Leave also after a false
  // Enter.
  bool Enter() const { return (word().fetch_add(1, std::memory_order_acquire) & kRevoked) == 0; }
  void Leave() const { word().fetch_sub(1, std::memory_order_release); }

 private:
  using Word = std::atomic<uint64_t>;
  static_assert(Word::is_always_lock_free);                // it is shared between processes
  static constexpr uint64_t kRevoked = uint64_t{1} << 63;  // the other bits count uses

  explicit Permit(MappedRegion memory) : memory_(std::move(memory)) {}
  Word& word() const { return *reinterpret_cast<Word*>(memory_.data()); }

  MappedRegion memory_;
};

}  // namespace peercache
