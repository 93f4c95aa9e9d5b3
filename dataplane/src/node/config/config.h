// NodeConfig: everything a node is told. One table of options (name, help, parser) serves the
// command line, the environment, the configuration file and the embedded host, so they cannot
// disagree.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "disk/disk_options.h"
#include "node/batch/checksum_policy.h"
#include "node/engine/uid_list.h"
#include "node/owner/room_plan.h"
#include "node/read/replicas.h"
#include "pool/numa_home.h"
#include "pool/pool.h"
#include "transport/rdma/link_options.h"
#include "transport/tcp/tls.h"

namespace peercache {

struct NodeConfig {
  bool one_sided_lookups() const { return directory_lookups == "one-sided"; }
  // A queue without progress for so long has lost its path; the others take over within the time
  // that RDMA has of a call (fabric.h).
  static Duration RdmaQueueStall(milliseconds peer_timeout) {
    return Duration(peer_timeout) * 2 / 15;
  }
  Duration rdma_queue_stall() const { return RdmaQueueStall(peer_timeout); }
  bool tls() const { return !tls_cert_file.empty(); }
  // The pool's file where pool_file is a folder.
  std::string pool_file_name() const { return group + ".pool"; }
  // Of each socket in tenants_dir.
  std::string tenant_socket_name() const {
    return socket.empty() ? group + ".sock" : socket.substr(socket.rfind('/') + 1);
  }
  // Where the nodes of one machine find each other's sockets; empty: nowhere.
  std::string shared_directory() const {
    if (!tenants_dir.empty()) return tenants_dir;
    return socket.substr(0, socket.rfind('/') + 1);
  }
  TlsFiles tls_files() const { return {tls_cert_file, tls_key_file, tls_ca_file, tls_peer_name}; }

  // With valid options (ParseConfig).
  disk::DiskOptions disk_options() const;

  std::string node_id;       // default: hostname.group
  uint32_t machine = 0;      // 0: ThisMachine(). No option: tests have many nodes on one
  uint64_t incarnation = 0;  // 0: the wall clock. No option: tests have clocks that go back
  std::string cluster = "default";
  std::string group = "default";
  std::string discovery_addr;  // host:port[,host:port...]; empty: this node alone
  std::string bind_addr = "::";
  std::string advertise_addr;  // default: the address of the route to discovery_addr
  uint16_t peer_port = 31998;  // 0: any free port
  uint16_t http_port = 31997;  // 0: any free port
  bool http = true;
  // Where engines of `tenant` attach; empty: nowhere but in tenants_dir.
  std::string socket = "/run/peercache/default.sock";
  uint32_t socket_mode = 0666;
  UidList socket_uids;
  std::string tenants_dir;  // empty: no other sockets
  std::string tenant;       // of `socket`; empty: the shared tenant
  std::string tenant_secret_file;
  size_t pool_bytes = size_t{4} << 30;
  HugePages huge_pages = HugePages::kAuto;
  std::string pool_file;                // or a folder; empty: the pool ends with the process
  std::string pool_file_view;           // the same on a read-only mount
  std::vector<std::string> disk_paths;  // folders; empty: pages are in memory only
  uint64_t disk_bytes = 0;              // in each of them
  std::string disk_write_budget = "1";
  disk::IoKind disk_io = disk::IoKind::kAuto;
  EvictionPolicy eviction = EvictionPolicy::kLru;
  bool prefault = true;
  int numa_node = kNumaAuto;
  uint32_t promotion_percent = 10;
  // A smaller share is not worth having. No option: tests have small pools.
  size_t least_promotion_bytes = Replicas::kSmallestShare;
  ChecksumPolicy checksums = ChecksumPolicy::kSampled;
  Watermarks watermarks;
  uint64_t drain_budget = uint64_t{8} << 30;
  std::string transport = "auto";  // auto | tcp | rdma
  std::string tcp_congestion = "auto";
  bool map_pools = true;
  bool tenant_metrics = false;
  bool core_files = false;  // of peercached; an engine's process is not the node's to change
  std::string bypass_file;
  std::string device_name;        // of the rails: "mlx5_0,mlx5_1:2"; empty: all that are usable
  std::string rdma_gid = "auto";  // auto | ipv4 | ipv6 | an address | a subnet
  rdma::LinkOptions rdma_link;
  std::chrono::microseconds rdma_spin{50};
  uint32_t rdma_max_queues = 16384;
  std::string directory_lookups = "rpc";  // rpc | one-sided
  milliseconds lease{1000};
  milliseconds dir_cache_ttl{1000};
  milliseconds peer_timeout{1000};
  milliseconds heartbeat{500};
  milliseconds member_ttl{3000};
  uint32_t vnodes = 160;
  uint32_t max_engines = 64;
  uint32_t engine_concurrency = 16;
  uint64_t max_engine_memory = 0;  // 0: all that this machine has, as the next
  uint64_t max_tenant_memory = 0;
  uint64_t max_directory_records = 16 << 20;
  uint32_t io_threads = 0;    // 0: one for each four cores, 2 to 4
  uint32_t copy_threads = 0;  // 0: as many as cores, at most 4
  std::string auth_token_file;
  milliseconds auth_spread{60'000};
  bool insecure_peers = false;
  std::string tls_cert_file, tls_key_file, tls_ca_file;  // all or none
  std::string tls_peer_name;
  std::string log_level = "info";
};

struct ConfigOption {
  const char* name;  // "pool-size"; environment: PEERCACHE_POOL_SIZE
  const char* help;
  const char* default_value;
  Status (*apply)(const std::string& value, NodeConfig* config);
};

std::span<const ConfigOption> ConfigOptions();

// Applies name -> value pairs over the defaults, then checks the whole. An unknown name, a bad
// value or an impossible combination fails with name, value and fix.
Result<NodeConfig> ParseConfig(const std::map<std::string, std::string>& values);

}  // namespace peercache
