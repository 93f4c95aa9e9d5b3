// What two nodes tell each other before one reads the other's pool by RDMA: the queue pairs at both
// ends, and where the pool lies and by which keys it may be read. Travels over an authenticated
// peer connection, which the queue pairs live and die with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "wire/frame.h"

namespace peercache {

// One queue pair and the port behind it. Flat.
struct QueueAddress {
  std::array<uint8_t, 16> gid{};
  // What ports that reach each other without a router have in common: the network's address
  // (Ethernet) or the subnet prefix (InfiniBand). Zero: not known.
  std::array<uint8_t, 16> network{};
  uint32_t queue = 0;     // queue pair number; 0: there is none
  uint32_t sequence = 0;  // first packet sequence number, 24 bits
  uint16_t lid = 0;       // InfiniBand
  uint8_t mtu = 0;        // ibv_mtu of the port, or the smaller one that is configured
  uint8_t reads = 0;      // READs the queue pair answers at once
  uint8_t ethernet = 0;   // the link layer: 1: Ethernet, addressed by GID; 0: InfiniBand
  // What switches sort its packets by, each plus 1; 0: not said, as by older members.
  uint8_t traffic_class = 0, service_level = 0;
  uint8_t reserved[1] = {};
  uint32_t ece = 0;  // what both devices do beyond the specification (transport/rdma/ece.h)
  bool operator==(const QueueAddress&) const = default;
};
static_assert(sizeof(QueueAddress) == 52 && std::is_trivially_copyable_v<QueueAddress>);

inline constexpr size_t kMaxRails = 32;
inline constexpr size_t kMaxQueues = 32;  // of one link
inline constexpr size_t kMaxPoolChunks = 4096;

// From the reader: one queue pair of each of its rails, then the second ones of those that have
// more, and so on.
struct ConnectRequest {
  std::vector<QueueAddress> queues;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// queues[i] is connected to queues[i] of the request; queue = 0: no rail of this node answers it,
// for the reason in the log there.
//
// Connecting takes time, and nobody serves others meanwhile: an answer that says `later`, and
// nothing else, asks for the same request again after a moment, over the same connection.
struct ConnectOk {
  struct Served {
    QueueAddress queue;
    std::vector<uint32_t> rkeys;  // of each chunk of the pool; empty when queue.queue = 0
  };
  bool later = false;
  uint64_t pool = 0;         // address of the pool, to READ from
  uint64_t pool_bytes = 0;   // its size
  uint64_t chunk_bytes = 0;  // registered under one key; the last chunk may be shorter
  std::vector<Served> queues;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

}  // namespace peercache
