#include "doctor/reach.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/small_file.h"
#include "node/config/exposure.h"
#include "node/report/http_get.h"
#include "transport/tcp/socket.h"

namespace peercache::doctor {
namespace {

using nlohmann::json;

constexpr milliseconds kConnectLimit{2000};
constexpr size_t kMostTargets = 256;  // descriptors; a larger cluster is seen in part

std::string HostPortText(const std::string& host, uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

// Null where there is no such thing.
json Child(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
}
std::string Text(const json& object, const char* key) {
  const json child = Child(object, key);
  return child.is_string() ? child.get<std::string>() : std::string();
}
uint64_t Number(const json& object, const char* key) {
  const json child = Child(object, key);
  return child.is_number_unsigned() ? child.get<uint64_t>() : 0;
}

// errno of the connection attempt on a socket that poll found ready.
int ConnectError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

void AddDiscovery(const NodeConfig& config, std::vector<Target>* targets,
                  std::vector<Reach>* unresolved) {
  if (config.discovery_addr.empty()) return;
  const auto hosts = ParseHostPorts(config.discovery_addr);
  if (!hosts.ok()) return;  // the configuration was checked before
  for (const HostPort& host : *hosts) {
    const std::string name = HostPortText(host.host, host.port);
    const auto addresses = Resolve(host.host);
    if (!addresses.ok()) {
      unresolved->push_back({Reach::Kind::kDiscovery, name, "", false, addresses.status(), {}});
      continue;
    }
    for (const std::string& address : *addresses)
      targets->push_back({Reach::Kind::kDiscovery, name, address, host.port});
  }
}

}  // namespace

Result<std::string> LocalStatus(const NodeConfig& config) {
  const std::string address = OwnAddress(config);
  if (!config.http || config.http_port == 0)
    return Unavailable(
        "the HTTP port of the node here is off or any, so its members are not known");
  const auto answer = HttpGet(address, config.http_port, "/v1/status", kConnectLimit);
  if (answer.ok() && answer->status == 200) return answer->body;
  return Unavailable(fmt::format(
      "no node answers at {} ({}): members are checked only beside a running node",
      HostPortText(address, config.http_port),
      answer.ok() ? fmt::format("HTTP {}", answer->status) : answer.status().message()));
}

std::vector<Reach> Connect(std::span<const Target> targets, Duration limit) {
  const TimePoint start = Clock::now(), deadline = start + limit;
  std::vector<Reach> reach;
  std::vector<UniqueFd> sockets;
  std::vector<pollfd> waiting;
  for (const Target& target : targets) {
    reach.push_back(
        {target.kind,
         target.name,
         HostPortText(target.host, target.port),
         IsLocalAddress(target.host),
         DeadlineExceeded(fmt::format("no answer within {} ms",
                                      std::chrono::duration_cast<milliseconds>(limit).count())),
         {}});
    auto socket = StartConnect(target.host, target.port);
    if (!socket.ok()) reach.back().status = socket.status();
    sockets.push_back(socket.ok() ? std::move(*socket) : UniqueFd());
    // poll ignores negative descriptors.
    waiting.push_back({sockets.back() ? sockets.back().get() : -1, POLLOUT, 0});
  }
  for (;;) {
    const bool done =
        std::all_of(waiting.begin(), waiting.end(), [](const pollfd& p) { return p.fd < 0; });
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (done || left <= 0) return reach;
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR)
      return reach;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      const int error = ConnectError(waiting[i].fd);
      reach[i].status = error == 0 ? Status() : FromErrno("connecting", error);
      reach[i].took = Clock::now() - start;
      waiting[i].fd = -1;
    }
  }
}

Result<NodeView> ParseNodeStatus(const std::string& text, size_t most) {
  const json document = json::parse(text, nullptr, false);
  const json members = Child(document, "members");
  if (!members.is_array()) {
    return Corrupt(
        "what answers there is no node: its /v1/status has no members; give the node's "
        "http-port");
  }
  NodeView view;
  const json huge = Child(Child(document, "pool"), "huge_pages");
  view.node.huge_pages = huge.is_boolean() && huge.get<bool>();
  const json memory = Child(Child(document, "numa"), "memory");
  view.node.numa_placement = Text(memory, "placement");
  view.node.numa_why = Text(memory, "why");
  for (const json& engine : Child(document, "engines")) {
    view.node.engines_in_small_pages += Number(engine, "bytes_in_small_pages");
    view.node.engines_in_huge_pages += Number(engine, "bytes_in_huge_pages");
  }
  view.node.class_mismatch = Text(Child(document, "transport"), "class_mismatch");
  const std::string self = Text(Child(document, "node"), "id");
  for (const json& member : members) {
    const std::string id = Text(member, "id"), address = Text(member, "address");
    const size_t colon = address.rfind(':');
    if (id.empty() || id == self || colon == std::string::npos) continue;
    if (view.members.size() >= most) break;
    const auto port = ParseLeadingNumber<uint16_t>(std::string_view(address).substr(colon + 1));
    if (port.value_or(0) == 0) continue;
    view.members.push_back({Reach::Kind::kMember, id, address.substr(0, colon), *port});
  }
  return view;
}

Outlook LookAround(const NodeConfig& config) {
  Outlook outlook{Unavailable("it was not asked"), {}};
  std::vector<Target> targets;
  std::vector<Reach> unresolved;
  AddDiscovery(config, &targets, &unresolved);
  if (targets.size() > kMostTargets) targets.resize(kMostTargets);
  if (auto status = LocalStatus(config); !status.ok()) {
    outlook.running = status.status();
  } else if (auto view = ParseNodeStatus(*status, kMostTargets - targets.size()); !view.ok()) {
    outlook.running = view.status();
  } else {
    outlook.running = view->node;
    targets.insert(targets.end(), view->members.begin(), view->members.end());
  }
  outlook.reach = Connect(targets, kConnectLimit);
  outlook.reach.insert(outlook.reach.end(), unresolved.begin(), unresolved.end());
  return outlook;
}

}  // namespace peercache::doctor
