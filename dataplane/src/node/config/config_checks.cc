#include "node/config/config_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "transport/rdma/link_options.h"

namespace peercache {
namespace {

// All three files or none, and each of them readable.
Status CheckTls(const NodeConfig& c) {
  const TlsFiles tls = c.tls_files();
  const auto files = tls.Named();
  const auto given = std::find_if(files.begin(), files.end(),
                                  [](const auto& file) { return !file.path->empty(); });
  if (given == files.end()) {
    if (c.tls_peer_name.empty()) return {};
    return InvalidArgument(fmt::format(
        "tls-peer-name: \"{}\" without TLS; set tls-cert-file, tls-key-file and tls-ca-file too",
        c.tls_peer_name));
  }
  for (const auto& [option, path] : files) {
    if (path->empty()) {
      return InvalidArgument(fmt::format(
          "{}: missing, while {} is set; set tls-cert-file, tls-key-file and tls-ca-file, or none",
          option, given->option));
    }
    if (!std::ifstream(*path))
      return InvalidArgument(fmt::format("{}: cannot read \"{}\"", option, *path));
  }
  return {};
}

Status CheckAckTimeout(const NodeConfig& c) {
  const uint8_t given = c.rdma_link.timeout;
  const Duration stall = c.rdma_queue_stall();
  if (c.transport == "tcp" || OutlastsLostPacket(stall, given)) return {};
  uint8_t most = given;
  while (!OutlastsLostPacket(stall, most)) --most;
  milliseconds enough = c.peer_timeout;
  while (enough <= kMostPeerTimeout &&
         !OutlastsLostPacket(NodeConfig::RdmaQueueStall(enough), given))
    ++enough;
  const auto ms = [](Duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  return InvalidArgument(fmt::format(
      "rdma-timeout: {} is {:.3g} ms, and a lost packet costs up to {} times that; with "
      "peer-timeout-ms {} a READ is given up after {:.3g} ms without progress; use at most {}{}",
      given, ms(rdma::AckTimeout(given)), rdma::kAckTimeoutSpread, c.peer_timeout.count(),
      ms(stall), most,
      enough <= kMostPeerTimeout
          ? fmt::format(", or a peer-timeout-ms of at least {}", enough.count())
          : ""));
}

Status CheckDisk(const NodeConfig& c) {
  if (c.disk_paths.empty()) {
    if (c.disk_bytes == 0) return {};
    return InvalidArgument(
        "disk-size: set without disk-path; name a folder on a drive, or remove it");
  }
  if (c.disk_bytes == 0) {
    return InvalidArgument(
        fmt::format("disk-size: not set, while disk-path is {}; write e.g. 500Gi",
                    fmt::join(c.disk_paths, ",")));
  }
  return disk::CheckOptions(c.disk_options()).Annotate("disk-path");
}

}  // namespace

bool OutlastsLostPacket(Duration queue_stall, uint8_t timeout) {
  return queue_stall >= rdma::kAckTimeoutSpread * rdma::AckTimeout(timeout);
}

Status CheckWhole(const NodeConfig& c) {
  constexpr size_t kSmallestPool = size_t{8} << 20;
  if (c.pool_bytes < kSmallestPool) {
    return InvalidArgument(
        fmt::format("pool-size: {} bytes is too small; at least 8Mi", c.pool_bytes));
  }
  if (c.watermarks.low >= c.watermarks.high) {
    return InvalidArgument(
        fmt::format("low-watermark: {:.0f}% is not below the high-watermark of {:.0f}%; lower it",
                    100 * c.watermarks.low, 100 * c.watermarks.high));
  }
  if (c.member_ttl < 3 * c.heartbeat) {
    return InvalidArgument(
        fmt::format("member-ttl-ms: {} is less than three times heartbeat-ms, which is {}: members "
                    "would come and go; use at least {}",
                    c.member_ttl.count(), c.heartbeat.count(), 3 * c.heartbeat.count()));
  }
  if (!c.auth_token_file.empty() && !std::ifstream(c.auth_token_file)) {
    return InvalidArgument(fmt::format("auth-token-file: cannot read \"{}\"", c.auth_token_file));
  }
  if (!c.pool_file.empty() && c.node_id.empty() && c.peer_port == 0) {
    return InvalidArgument(fmt::format(
        "node-id: not set, with peer-port 0, so the name is another one after each start, and the "
        "pages in pool-file {} would be lost; set node-id",
        c.pool_file));
  }
  if (!c.pool_file_view.empty() && c.pool_file.empty()) {
    return InvalidArgument(
        fmt::format("pool-file-view: \"{}\" is a view of no file; set pool-file, or leave this out",
                    c.pool_file_view));
  }
  if (c.socket.empty() && c.tenants_dir.empty()) {
    return InvalidArgument(
        "socket: none, and tenants-dir is not set, so that no engine could attach; set one of "
        "them");
  }
  if (c.tenant_socket_name().empty()) {
    return InvalidArgument(fmt::format(
        "socket: \"{}\" names no file; write e.g. /run/peercache/default.sock", c.socket));
  }
  if (Status s = CheckDisk(c); !s.ok()) return s;
  if (Status s = CheckAckTimeout(c); !s.ok()) return s;
  return CheckTls(c);
}

}  // namespace peercache
