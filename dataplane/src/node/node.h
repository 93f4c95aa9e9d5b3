// Node: one PeerCache member = pool + directory shard + transports + engine sessions. The same
// class runs as the DaemonSet's process, as a sidecar and inside an SGLang process.
//
//   auto node = Node::Start(config);      // validated, bound, joined in the background
//   node->socket();                       // where engines attach
//   node->Leave();                        // others take over pages and shard, then it is gone
//
// Start returns when every port is bound; readiness (joined) shows in ready(). The destructor stops
// all threads; without Leave() others see a member that died.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "node/config/config.h"

namespace peercache {

class Node {
 public:
  static Result<std::unique_ptr<Node>> Start(NodeConfig config);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  bool ready() const;
  const std::string& socket() const;
  uint16_t peer_port() const;
  uint16_t http_port() const;
  // The JSON of /v1/status.
  std::string StatusJson() const;
  // Leaves the membership, within `limit`: has its most-read pages taken over by others, for half
  // of that at most, and waits until every other member has taken over this node's part of the
  // directory. Idempotent.
  void Leave(milliseconds limit);

 private:
  class Impl;
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
