// PeerClasses: whether the queue pairs at both ends of a link have their packets sorted alike by
// switches (rdma-traffic-class, rdma-service-level). The holder's end sends the bulk of a READ, as
// the holder is configured. Where the ends differ, one direction leaves the class in which switches
// lose nothing, and all seems well until they are full.
//
//   rails.classes().Compare(here, there);              // of each new link, at both ends
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "transport/rdma/link_options.h"
#include "wire/fabric.h"

namespace peercache::rdma {

// Says to peers what is configured here.
void TellClasses(const LinkOptions& link, QueueAddress* address);

// What differs, with the options, for people; empty: nothing, or one of them does not say.
std::string ClassesDiffer(const QueueAddress& here, const QueueAddress& there);

class PeerClasses {
 public:
  // Queue pairs of one link: here[i] is connected to there[i], where that is one. Counts the link
  // when any differ, and warns of the peer's port, once until the port is alike.
  void Compare(std::span<const QueueAddress> here, std::span<const QueueAddress> there);

  struct Stats {
    uint64_t links = 0;  // that differed
    std::string now;     // a port that differed in its last link, in what, and what to do
  };
  Stats stats() const;

 private:
  mutable std::mutex mutex_;
  uint64_t links_ = 0;
  std::map<std::array<uint8_t, 16>, std::string> differ_;  // by the GID of the peer's port
};

}  // namespace peercache::rdma
