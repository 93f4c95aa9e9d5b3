// HostilePeer: the node on the other side of a node under test. It answers what an input says, and
// is the owner of every key. With it comes all that a node needs to talk to its peers.
#pragma once

#include <chrono>
#include <memory>

#include "fuzz.h"
#include "membership/view.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"
#include "node/peer/secret.h"
#include "scripted_server.h"

namespace peercache::fuzz {

class HostilePeer {
 public:
  static constexpr size_t kPages = 4;   // an answer is about so many
  static constexpr size_t kPage = 512;  // bytes of each
  static constexpr Duration kStall = std::chrono::seconds(1);

  static HostilePeer& Get();
  const Member& member() const { return member_; }

  // What the next connections are told. A script, connection by connection. Operations:
  //   0  raw bytes
  //   1  a frame of type `argument`: body
  //   2  the right answer of type `argument`, with its pages: edits to header, body and pages
  //   3  the next connection
  void Answer(Input input);

 private:
  HostilePeer();
  std::vector<std::byte> RightAnswer(MessageType type) const;
  std::vector<Blob> Connections(Input input) const;

  Member member_;
  std::unique_ptr<ScriptedServer> server_;
};

// A node that has just joined the cluster of that peer. Fresh for every input.
struct NodeOfHostilePeer {
  NodeOfHostilePeer();

  static Key KeyOf(size_t n);

  const std::unique_ptr<Secret> secret = Secret::None();
  Peers peers;
  Shard shard;
  Counters counters;
  std::shared_ptr<const View> view;
};

}  // namespace peercache::fuzz
