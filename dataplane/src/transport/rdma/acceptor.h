// Acceptor: lets peers READ this node's pool. For each connection one queue pair per rail of the
// reader, on the rail here that reaches it best; they only answer READs, and take no memory of
// their own. They go with the connection that asked for them.
//
//   auto queues = acceptor.Accept(request, &answer);   // answer.later: is to ask again
//
// They are connected in threads of the rails: nobody waits in Accept. Bounded: queue pairs in all.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/weak_map.h"
#include "wire/fabric.h"

namespace peercache::rdma {

// Which rail here answers each of the reader's: one in the same network, where there is any, the
// least used of them first; else the one with the same position, as networks with a router for each
// rail are built. -1: none. `up[i]`: rail i may be used.
std::vector<int> PairRails(std::span<const QueueAddress> reader, std::span<const QueueAddress> here,
                           std::span<const uint8_t> up);

class Acceptor {
 public:
  // Serves `pool`, a range of `registered` for remote READ; these and the rails outlive the
  // acceptor.
  Acceptor(const Rails* rails, const RegisteredMemory* registered, std::span<const std::byte> pool,
           uint32_t max_queues);
  ~Acceptor();

  // The queue pairs of one connection, connected or about to be; they answer nothing any more when
  // the last copy has gone.
  using Queues = std::shared_ptr<const void>;
  // The first answer to a request says `later`. So do the next, until each rail has connected, or
  // failed, or taken long: those that are connected then are offered.
  Result<Queues> Accept(const ConnectRequest& request, ConnectOk* answer);

  struct Stats {
    uint32_t queues = 0;
    uint64_t refused = 0;  // for want of room
  };
  Stats stats() const { return {queues_, refused_}; }

 private:
  struct Group;
  struct Place;
  Result<std::shared_ptr<Group>> Begin(const ConnectRequest& request);
  std::shared_ptr<Group> Find(const ConnectRequest& request);
  Status Connect(Group* group, size_t i);
  void Offer(const Group& group, ConnectOk* answer) const;

  const Rails* const rails_;
  const RegisteredMemory* const registered_;
  const std::span<const std::byte> pool_;
  const uint32_t max_queues_;
  std::atomic<uint32_t> queues_{0};
  std::atomic<uint64_t> refused_{0};
  std::mutex mutex_;
  struct HashOfQueues {
    size_t operator()(const std::vector<QueueAddress>& queues) const;
  };
  // Of each rail: queue pairs that have answered over it.
  std::vector<std::atomic<uint32_t>> turns_;
  // By the queues of the reader: their packet sequence numbers tell a request from all others.
  WeakMap<std::vector<QueueAddress>, Group, HashOfQueues> groups_;
};

}  // namespace peercache::rdma
