// A node as its peers see it: a pool with some pages, a shard and a discovery table behind the real
// PeerRequests. Fresh but for the pool, so that an input means the same every time.
#pragma once

#include <vector>

#include "fuzz.h"
#include "node/clear/clears.h"
#include "node/peer/views.h"
#include "node/peer_requests.h"

namespace peercache::fuzz {

class PeerWorld {
 public:
  static constexpr size_t kPages = 8;
  static constexpr uint64_t kIncarnation = 77;
  static constexpr char kCluster[] = "fuzz";
  static constexpr char kToken[] = "the token of all fuzz targets";

  PeerWorld();

  // To callers that name a key it is a node that has a secret, to others one without.
  PeerService* service() { return &both_; }
  // The body of a request that the node accepts, holding what a peer would know by now. Empty for
  // types that have none.
  std::vector<std::byte> ValidBody(MessageType type);
  // Checks an answer's frame and pages: well-formed, of the type that belongs to the request, pages
  // with the bytes that were put there.
  void CheckAnswer(MessageType request, ConstBytes frame, ConstBytes payload);

 private:
  struct Page {
    Key key;
    uint64_t offset = 0, generation = 0;
    std::vector<std::byte> bytes;
  };
  struct Stored {
    std::unique_ptr<Pool> pool;
    std::vector<Page> pages;
  };
  struct Both : PeerService {
    explicit Both(PeerWorld* w) : world(w) {}
    Status OnHello(const Hello& hello, Greeting* answer) override;
    Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override;
    bool Trusts(uint64_t key) const override;
    PeerWorld* const world;
  };
  static Stored& Shared();

  Stored& stored_;
  const std::unique_ptr<Secret> none_ = Secret::None(), secret_;
  Shard shard_;
  Table table_;
  Counters counters_;
  Views views_;
  Peers peers_;
  Clears clears_;  // not started: it asks nobody
  PeerRequests open_, guarded_;
  Both both_{this};
  uint64_t sequence_ = 0;
  // The latest that a caller and this node said of themselves.
  Hello hello_;
  std::optional<Challenge> challenge_;
};

}  // namespace peercache::fuzz
