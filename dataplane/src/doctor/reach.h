// Whether the discovery hosts and the members accept connections.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace peercache::doctor {

struct Target {
  Reach::Kind kind = Reach::Kind::kDiscovery;
  std::string name;
  std::string host;  // numeric
  uint16_t port = 0;
};

// Connects to all at once, and sends nothing; those that have not accepted after `limit` get
// kDeadlineExceeded. In the order of `targets`.
std::vector<Reach> Connect(std::span<const Target> targets, Duration limit);

// Of the JSON of /v1/status: the members other than the node itself, at most `most`, and the node.
struct NodeView {
  RunningNode node;
  std::vector<Target> members;
};
Result<NodeView> ParseNodeStatus(const std::string& json, size_t most);

// /v1/status of the node at the HTTP port of this configuration, whole.
Result<std::string> LocalStatus(const NodeConfig& config);

struct Outlook {
  Result<RunningNode> running;
  std::vector<Reach> reach;
};
// The discovery hosts of the configuration, and the members that the node at its HTTP port knows.
Outlook LookAround(const NodeConfig& config);

}  // namespace peercache::doctor
