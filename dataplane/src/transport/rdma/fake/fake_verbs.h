// FakeVerbs: what the fake libibverbs.so.1 has been told, and how its one device, fake0, behaves.
// READs are copies within the process, at the rate of the queue pair, out of memory that was
// registered for them under the key that they name. Others are refused, and end their queue pair.
//
//   FakeVerbs& fake = FakeVerbs::Get();
//   fake.Reset();
//   fake.bytes_per_second = 10 << 20;
//   ... read ...
//   EXPECT_THAT(fake.registrations(), Each(...));
//
// Thread-safe but for Reset and the behaviour, which are for when nobody is at work.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace peercache::rdma {

class FakeNetwork;

class __attribute__((visibility("default"))) FakeVerbs {
 public:
  struct Registered {
    std::string by;  // "ibv_reg_mr"
    unsigned access = 0;
  };
  struct Modified {
    ibv_qp_attr attributes{};
    int mask = 0;
  };

  static FakeVerbs& Get();
  void Reset();

  // How it behaves.
  static constexpr int kVectors = 3;
  std::atomic<uint64_t> bytes_per_second{0};  // of each queue pair; 0: no time at all
  std::atomic<bool> brings{true};             // or READs never end: the path is dead
  // Whether ports have an address, or zeros.
  std::atomic<bool> addressed{false};
  // Whether the queue pairs of both ends are in this process: READs end when the other end's is
  // stopped or gone. Else it counts as there.
  std::atomic<bool> both_ends{false};
  // The last byte of a port's GID, before which is ::ffff:10.0.0.
  static constexpr uint8_t GidByte(uint8_t port) { return port; }
  // When READs complete, in place of the two above; null: they decide.
  std::atomic<FakeNetwork*> network{nullptr};
  std::atomic<uint64_t> most_landed{UINT64_MAX};  // bytes of each READ that are copied
  // Of each READ that no fence holds back, so many bytes are fetched when it is posted, whatever is
  // under way before it; the others when it completes.
  std::atomic<uint64_t> early_bytes{0};
  // How many READs of all queue pairs complete before one ends like this, and its queue pair with
  // it.
  static constexpr uint64_t kAll = UINT64_MAX;
  std::atomic<uint64_t> good_reads{kAll};
  std::atomic<ibv_wc_status> then{IBV_WC_RETRY_EXC_ERR};
  std::atomic<int> relaxed_error{0};  // of registering memory with relaxed ordering
  // Registrations after so many wait until there may be more.
  std::atomic<size_t> registers{SIZE_MAX};
  // Of the bond that each of its ports is, as mlx5's library tells; 0: it is no device of mlx5's.
  std::atomic<uint8_t> bond_members{0};
  // A port on which somebody else makes a queue pair after each of ours; 0: none.
  std::atomic<uint8_t> shared_port{0};
  // What ibv_query_ece says of a new queue pair.
  std::atomic<uint32_t> ece{0};
  std::atomic<ibv_fork_status> fork{IBV_FORK_DISABLED};
  // Which queue pair, by its number, a stop does not make report what it had under way; 0: none.
  // Its destruction waits until LetGo.
  std::atomic<uint32_t> holds_on{0};
  // What the one that holds on has under way lands, late; then it lets go.
  void LetGo();

  // What it was told.
  std::vector<std::string> calls() const;  // in order
  std::vector<Registered> registrations() const;
  std::vector<int> vectors() const;  // of completion queues with a channel
  std::vector<Modified> modified() const;
  size_t destroyed() const;                  // queue pairs
  uint32_t ece_taken(uint32_t queue) const;  // by the queue pair of this number
  size_t doorbells() const;                  // chains of READs that were posted
  size_t posted() const;                     // READs
  size_t polls() const;                      // calls of poll_cq
  size_t reported() const;                   // completions
  // READs of all queue pairs that are neither done nor flushed: they may still land.
  size_t under_way() const;
  // The most bytes that they had to bring at once.
  uint64_t peak_bytes() const;

  // What there is: "qp", "cq" or "mr", as `rdma resource` names them.
  size_t objects(const std::string& kind) const;

  // For the libraries.
  int NameMember(ibv_qp* qp, uint8_t member);
  struct State;
  State* state() const { return state_; }

 private:
  FakeVerbs();
  State* const state_;
};

}  // namespace peercache::rdma
