// PeerRequests: answers what other nodes ask of this one. Nothing here blocks on the network.
#pragma once

#include <functional>
#include <string>

#include "directory/shard.h"
#include "membership/table.h"
#include "node/clear/clears.h"
#include "node/count/counters.h"
#include "node/disk/disk_pages.h"
#include "node/peer/secret.h"
#include "node/rails/fabric.h"
#include "pool/pool.h"
#include "transport/peer_service.h"

namespace peercache {

class PeerRequests : public PeerService {
 public:
  using Taker = std::function<Result<OfferAnswer>(const OfferRequest&)>;

  // `self.to`: the address that this node tells others.
  PeerRequests(Hello self, const Secret* secret, Pool* pool, Shard* shard, Table* table,
               Counters* counters, Fabric* fabric, Clears* clears,
               std::function<size_t(uint64_t tag)> clear, Taker take, DiskPages* disk = nullptr);

  Status OnHello(const Hello& hello, Greeting* answer) override;
  bool Trusts(uint64_t key) const override;
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override;

 private:
  Status Answer(const FrameHeader& header, FrameReader body, PeerAnswer* answer);
  Status OnLookup(const FrameHeader& header, FrameReader* body, FrameWriter* out);
  Status OnDirectory(FrameReader* body, FrameWriter* out);
  Status OnOwner(const FrameHeader& header, FrameReader* body, FrameWriter* out);
  Status OnRead(FrameReader* body, PeerAnswer* answer);
  Status OnFetch(FrameReader* body, FrameWriter* out);
  Status OnConnect(FrameReader* body, PeerAnswer* answer);
  Status OnOffer(FrameReader* body, FrameWriter* out);
  Status OnHeartbeat(const FrameHeader& header, FrameReader* body, FrameWriter* out);

  const Hello self_;
  const Secret* const secret_;
  Pool* const pool_;
  Shard* const shard_;
  Table* const table_;
  Counters* const counters_;
  Fabric* const fabric_;  // null without RDMA
  Clears* const clears_;
  const std::function<size_t(uint64_t)> clear_;  // Upkeep::Clear
  const Taker take_;                             // Intake::Answer
  DiskPages* const disk_;                        // null without
};

}  // namespace peercache
