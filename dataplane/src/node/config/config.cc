#include "node/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/memory.h"
#include "base/size.h"
#include "disk/write_budget.h"
#include "node/config/config_checks.h"
#include "node/tenant/tenant_key.h"
#include "transport/rdma/choose_gid.h"
#include "transport/rdma/select_ports.h"
#include "transport/tcp/socket.h"
#include "wire/messages.h"

namespace peercache {
namespace {

// Each drive has twice as much in write buffers. Longer pages are in memory only.
constexpr uint32_t kLongestDiskPage = 16 << 20;

Status Number(const std::string& value, int64_t min, int64_t max, const char* unit, int64_t* out) {
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, *out);
  if (error != std::errc() || rest != end || *out < min || *out > max) {
    return InvalidArgument(
        fmt::format("\"{}\" is not a number of {} from {} to {}", value, unit, min, max));
  }
  return {};
}

template <auto Member, int64_t kMin, int64_t kMax>
Status SetMillis(const std::string& value, NodeConfig* c) {
  int64_t number = 0;
  if (Status s = Number(value, kMin, kMax, "milliseconds", &number); !s.ok()) return s;
  c->*Member = milliseconds(number);
  return {};
}

template <auto Member, int64_t kMin, int64_t kMax>
Status SetNumber(const std::string& value, NodeConfig* c) {
  int64_t number = 0;
  if (Status s = Number(value, kMin, kMax, "units", &number); !s.ok()) return s;
  using T = std::remove_reference_t<decltype(c->*Member)>;
  c->*Member = static_cast<T>(number);
  return {};
}

template <auto Member>
Status SetSize(const std::string& value, NodeConfig* c) {
  auto bytes = ParseSize(value);
  if (!bytes.ok()) return bytes.status();
  c->*Member = *bytes;
  return {};
}

template <auto Member>
Status SetSizeOrNone(const std::string& value, NodeConfig* c) {
  return value.empty() ? Status() : SetSize<Member>(value, c);
}

// Absolute paths, none of them twice.
Result<std::vector<std::string>> Listed(const std::string& value) {
  std::vector<std::string> paths;
  for (size_t at = 0; !value.empty() && at <= value.size();) {
    const size_t comma = std::min(value.find(',', at), value.size());
    std::string path = value.substr(at, comma - at);
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    if (!path.starts_with('/')) {
      return InvalidArgument(fmt::format(
          "\"{}\" in \"{}\" is not an absolute path; write e.g. /data/peercache", path, value));
    }
    if (std::ranges::find(paths, path) != paths.end())
      return InvalidArgument(fmt::format("\"{}\" is named twice; name each drive once", path));
    paths.push_back(std::move(path));
    at = comma + 1;
  }
  return paths;
}

template <auto Member, int64_t kMin, int64_t kMax>
Status SetLink(const std::string& value, NodeConfig* c) {
  int64_t number = 0;
  if (Status s = Number(value, kMin, kMax, "units", &number); !s.ok()) return s;
  using T = std::remove_reference_t<decltype(c->rdma_link.*Member)>;
  c->rdma_link.*Member = static_cast<T>(number);
  return {};
}

// A share of the pool, written as whole per cent.
template <auto Member>
Status SetWatermark(const std::string& value, NodeConfig* c) {
  int64_t percent = 0;
  const bool sign = value.ends_with('%');
  const Status s = Number(value.substr(0, value.size() - (sign ? 1 : 0)), 10, 99, "%", &percent);
  if (!s.ok() || !sign) {
    return InvalidArgument(fmt::format("\"{}\" is not a share from 10% to 99%", value));
  }
  c->watermarks.*Member = static_cast<double>(percent) / 100;
  return {};
}

Status Switch(const std::string& value, bool* out) {
  if (value != "on" && value != "off")
    return InvalidArgument(fmt::format("\"{}\" is none of on, off", value));
  *out = value == "on";
  return {};
}

template <auto Member>
Status SetSwitch(const std::string& value, NodeConfig* c) {
  return Switch(value, &(c->*Member));
}

template <auto Member>
Status SetLinkSwitch(const std::string& value, NodeConfig* c) {
  return Switch(value, &(c->rdma_link.*Member));
}

template <auto Member>
Status SetText(const std::string& value, NodeConfig* c) {
  c->*Member = value;
  return {};
}

template <auto Member, size_t kMost = kMaxIdBytes>
Status SetName(const std::string& value, NodeConfig* c) {
  const auto allowed = [](unsigned char ch) {
    return std::isalnum(ch) || ch == '.' || ch == '-' || ch == '_' || ch == '/';
  };
  if (value.size() > kMost || !std::all_of(value.begin(), value.end(), allowed)) {
    return InvalidArgument(fmt::format(
        "\"{}\" must have at most {} characters, of letters, digits and . - _ /", value, kMost));
  }
  c->*Member = value;
  return {};
}

template <auto Member>
Status SetChoice(const std::string& value, std::initializer_list<const char*> choices,
                 NodeConfig* c) {
  for (const char* choice : choices) {
    if (value != choice) continue;
    c->*Member = value;
    return {};
  }
  return InvalidArgument(fmt::format("\"{}\" is none of {}", value, fmt::join(choices, ", ")));
}

constexpr ConfigOption kOptions[] = {
    {"node-id", "Stable name of this node, unique in the cluster (default: HOSTNAME.GROUP)", "",
     SetName<&NodeConfig::node_id, kMaxMemberIdBytes>},
    {"cluster", "Cluster name; nodes of different clusters refuse each other", "default",
     SetName<&NodeConfig::cluster>},
    {"group", "Group of rails this node drives", "default", SetName<&NodeConfig::group>},
    {"discovery-addr",
     "Discovery hosts, host:port[,host:port]; a name may resolve to several addresses and all are "
     "used; any node can be one. Empty: this node alone",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       c->discovery_addr = value;
       return value.empty() ? Status() : ParseHostPorts(value).status();
     }},
    {"bind-addr",
     "Address the peer and HTTP ports listen at; ::: all of this host, of IPv4 and IPv6; 0.0.0.0: "
     "those of IPv4",
     "::", SetText<&NodeConfig::bind_addr>},
    {"advertise-addr",
     "Address peers reach this node at, or the interface that has it, e.g. rail0 (default: the one "
     "this host uses towards discovery-addr)",
     "", SetText<&NodeConfig::advertise_addr>},
    {"peer-port",
     "Port for peers and discovery; 0: the discovery port if this node hosts discovery and it is "
     "free, otherwise any",
     "31998", SetNumber<&NodeConfig::peer_port, 0, 65535>},
    {"http-port", "Port of /healthz /readyz /metrics /v1/status; 0: any", "31997",
     SetNumber<&NodeConfig::http_port, 0, 65535>},
    {"http", "on | off", "on", SetSwitch<&NodeConfig::http>},
    {"socket",
     "Unix socket where engines of the tenant `tenant` attach; none: engines attach in tenants-dir "
     "alone",
     "/run/peercache/default.sock",
     [](const std::string& value, NodeConfig* c) -> Status {
       c->socket = value == "none" ? "" : value;
       return {};
     }},
    {"socket-mode", "Octal permissions of the socket", "0666",
     [](const std::string& value, NodeConfig* c) -> Status {
       unsigned mode = 0;
       const char* end = value.data() + value.size();
       const auto [rest, error] = std::from_chars(value.data(), end, mode, 8);
       if (error != std::errc() || rest != end || mode > 0777) {
         return InvalidArgument(fmt::format("\"{}\" is not an octal mode such as 0660", value));
       }
       c->socket_mode = mode;
       return {};
     }},
    {"socket-uids",
     "Users whose processes may attach: any (who can open the socket), or numbers and \"same\" "
     "(this process's user), e.g. same,1000",
     "any",
     [](const std::string& value, NodeConfig* c) -> Status {
       auto uids = UidList::Parse(value);
       if (!uids.ok()) return uids.status();
       c->socket_uids = std::move(*uids);
       return {};
     }},
    {"tenants-dir",
     "Directory in which each folder is a tenant, named by the folder, whose engines attach at "
     "FOLDER/NAME with the file name of socket (GROUP.sock where that is none); tenants never see "
     "each other's pages",
     "", SetText<&NodeConfig::tenants_dir>},
    {"tenant",
     "Tenant of the engines at socket: a name as of a Kubernetes namespace; empty: the shared "
     "tenant",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       if (!value.empty() && !IsTenantName(value)) {
         return InvalidArgument(fmt::format(
             "\"{}\" is not a name of a namespace: 1 to 63 lower-case letters, digits and '-'",
             value));
       }
       c->tenant = value;
       return {};
     }},
    {"tenant-secret-file",
     "File with a secret of at least 128 bits, equal on all nodes. Tenants' keys are derived from "
     "it. Create it with \"openssl rand -hex 32\" and keep it: without it, tenants' pages are lost",
     "", SetText<&NodeConfig::tenant_secret_file>},
    {"pool-size", "Memory for pages, e.g. 64Gi", "4Gi", SetSize<&NodeConfig::pool_bytes>},
    {"huge-pages", "auto | off | 2Mi | 1Gi; auto falls back to small pages", "auto",
     [](const std::string& value, NodeConfig* c) -> Status {
       auto pages = ParseHugePages(value);
       if (!pages.ok()) return pages.status();
       c->huge_pages = *pages;
       return {};
     }},
    {"pool-file",
     "Path of the pool's file on a tmpfs or hugetlbfs, or a folder there: its pages outlive this "
     "process, and the next one with the same options takes them over; empty: they end with the "
     "process",
     "", SetText<&NodeConfig::pool_file>},
    {"pool-file-view",
     "The same file or folder as pool-file, on a read-only mount: other nodes of the machine get "
     "the file from there, so that none of them can write to it (map-pools); empty: they get none",
     "", SetText<&NodeConfig::pool_file_view>},
    {"disk-path",
     "Folder on a drive for pages that leave the pool, or several with commas, each on a drive of "
     "its own: they come back from there when engines request them, also after a restart; empty: "
     "none",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       auto paths = Listed(value);
       if (!paths.ok()) return paths.status();
       c->disk_paths = std::move(*paths);
       return {};
     }},
    {"disk-size", "Space for pages in each folder of disk-path, taken at start, e.g. 500Gi", "",
     SetSizeOrNone<&NodeConfig::disk_bytes>},
    {"disk-write-budget",
     "Most bytes to write per day to all drives of disk-path together, so that drives last: a "
     "multiple of their disk-size, e.g. 3; bytes, e.g. 20Ti; or unlimited",
     "1",
     [](const std::string& value, NodeConfig* c) -> Status {
       c->disk_write_budget = value;
       return disk::ParseWriteBudget(value, 1).status();
     }},
    {"disk-io",
     "How drives are read and written: auto (the first that works) | io_uring | aio | threads",
     "auto",
     [](const std::string& value, NodeConfig* c) -> Status {
       const auto kind = disk::ParseIoKind(value);
       if (!kind.ok()) return kind.status();
       c->disk_io = *kind;
       return {};
     }},
    {"eviction",
     "Which pages go when room is needed: lru | s3fifo; s3fifo keeps what is shared through floods "
     "of pages that are read once",
     "lru",
     [](const std::string& value, NodeConfig* c) -> Status {
       auto policy = ParseEvictionPolicy(value);
       if (!policy.ok()) return policy.status();
       c->eviction = *policy;
       return {};
     }},
    {"prefault",
     "on | off; on: the pool's memory is taken in the background at start, not by the first sets",
     "on", SetSwitch<&NodeConfig::prefault>},
    {"numa-node",
     "NUMA node for the pool's memory and the threads: auto (that of the rails) | off | its number",
     "auto",
     [](const std::string& value, NodeConfig* c) -> Status {
       const auto node = ParseNumaOption(value);
       if (!node.ok()) return node.status();
       c->numa_node = *node;
       return {};
     }},
    {"promotion-percent",
     "Percent of the pool for copies of other nodes' pages that several engines here read at once, "
     "and again as much for replicas of often-read pages; 0: neither",
     "10", SetNumber<&NodeConfig::promotion_percent, 0, 50>},
    {"checksums",
     "Pages that carry a checksum which every read verifies: off | sampled (one in 16) | all",
     "sampled",
     [](const std::string& value, NodeConfig* c) -> Status {
       const auto policy = ParseChecksumPolicy(value);
       if (!policy.ok()) return policy.status();
       c->checksums = *policy;
       return {};
     }},
    {"high-watermark", "Share of the pool that pages fill while sets are rare", "95%",
     SetWatermark<&Watermarks::high>},
    {"low-watermark",
     "Share of the pool that evictions leave to pages; sets that need more room wait or are "
     "refused",
     "75%", SetWatermark<&Watermarks::low>},
    {"drain-budget",
     "When this node leaves, other nodes take over at most this many bytes of its most-read pages, "
     "e.g. 8Gi; 0: none. Default with pool-file: 0, because pages wait in the file for this node",
     "8Gi", SetSize<&NodeConfig::drain_budget>},
    {"transport",
     "How pages travel between nodes: auto (RDMA where this machine and the peer have it, else "
     "TCP) | tcp | rdma (do not start without)",
     "auto",
     [](const std::string& value, NodeConfig* c) {
       return SetChoice<&NodeConfig::transport>(value, {"auto", "tcp", "rdma"}, c);
     }},
    {"tcp-congestion",
     "Congestion control of pages sent over TCP: auto (what the host is set to; CUBIC in place of "
     "BBR, whose pacing costs half of the throughput) | a name such as dctcp or bbr",
     "auto", SetName<&NodeConfig::tcp_congestion>},
    {"map-pools",
     "on | off; on: nodes on one machine that share the folder of their sockets map each other's "
     "pool read-only and copy pages directly; with pool-file this takes pool-file-view",
     "on", SetSwitch<&NodeConfig::map_pools>},
    {"tenant-metrics",
     "on | off; off: /metrics counts all tenants together; on: each by its name, in Kubernetes a "
     "namespace, which any process that reaches the HTTP port then reads",
     "off", SetSwitch<&NodeConfig::tenant_metrics>},
    {"core-files",
     "on | off; off: no core file is written when the process crashes, and no other process of its "
     "user reads its memory; keys of peers and tenants are in it",
     "off", SetSwitch<&NodeConfig::core_files>},
    {"bypass-file",
     "File whose first line, while it is \"on\", takes the cache out of the way of this node's "
     "engines: gets are misses, sets are refused, pages stay; read once a second",
     "", SetText<&NodeConfig::bypass_file>},
    {"device-name",
     "RDMA ports that are this node's rails, DEVICE or DEVICE:PORT, e.g. mlx5_0,mlx5_1:2 (default: "
     "all usable ports of hardware)",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       c->device_name = value;
       return rdma::ParseDeviceList(value).status();
     }},
    {"rdma-gid",
     "Address that a RoCE port speaks with: auto | ipv4 | ipv6 | an address | a subnet such as "
     "10.1.0.0/16",
     "auto",
     [](const std::string& value, NodeConfig* c) -> Status {
       c->rdma_gid = value;
       return rdma::ParseGidPreference(value).status();
     }},
    {"rdma-traffic-class", "Traffic class of RoCE packets: DSCP * 4, e.g. 104 for DSCP 26", "0",
     SetLink<&rdma::LinkOptions::traffic_class, 0, 255>},
    {"rdma-service-level", "Service level (InfiniBand), or priority of RoCE packets", "0",
     SetLink<&rdma::LinkOptions::service_level, 0, 15>},
    {"rdma-timeout",
     "Wait for an acknowledgement before a packet is sent again: 4.096 us * 2^N, e.g. 12: 17 ms. "
     "If you do not set it, a peer-timeout-ms below 504 lowers it",
     "12", SetLink<&rdma::LinkOptions::timeout, 1, 31>},
    {"rdma-retries", "Times a packet is sent again before its queue pair is given up", "7",
     SetLink<&rdma::LinkOptions::retries, 0, 7>},
    {"rdma-pkey-index", "Index of the partition key (InfiniBand)", "0",
     SetLink<&rdma::LinkOptions::pkey_index, 0, 65535>},
    {"rdma-mtu", "Largest payload of an RDMA packet: 0 (what both ports have) or 256 to 4096", "0",
     SetLink<&rdma::LinkOptions::mtu, 0, 4096>},
    {"rdma-odp",
     "on | off; on: registered memory is not locked, but paged in on demand, by devices that have "
     "that; slower when a page is first read",
     "off", SetLinkSwitch<&rdma::LinkOptions::on_demand_paging>},
    {"rdma-relaxed-ordering",
     "on | off; on: devices write what a READ brings in any order until it is complete, without "
     "which many machines do not reach 200 Gb/s",
     "on", SetLinkSwitch<&rdma::LinkOptions::relaxed_ordering>},
    {"rdma-ece",
     "on | off; on at both ends: devices agree to send again only what was lost. For networks that "
     "lose packets; measure it first, bonds have become slow with it",
     "off", SetLinkSwitch<&rdma::LinkOptions::ece>},
    {"rdma-spin-us",
     "How long a call polls for completions before it sleeps until one comes; 0: sleep at once",
     "50",
     [](const std::string& value, NodeConfig* c) -> Status {
       int64_t number = 0;
       if (Status s = Number(value, 0, 1'000'000, "microseconds", &number); !s.ok()) return s;
       c->rdma_spin = std::chrono::microseconds(number);
       return {};
     }},
    {"rdma-queues",
     "Queue pairs of each rail towards a peer: auto (as many as fill its port) | 1 to 4", "auto",
     [](const std::string& value, NodeConfig* c) -> Status {
       if (value == "auto") {
         c->rdma_link.queues = 0;
         return {};
       }
       return SetLink<&rdma::LinkOptions::queues, 1, 4>(value, c);
     }},
    {"rdma-max-queues", "Queue pairs to peers at most, and as many for peers", "16384",
     SetNumber<&NodeConfig::rdma_max_queues, 1, 1 << 20>},
    {"directory-lookups",
     "How shards of other nodes are asked where pages are: rpc | one-sided (their memory is read "
     "by "
     "RDMA, where that reaches; takes 1/512 of pool-size, in whole pages)",
     "rpc",
     [](const std::string& value, NodeConfig* c) {
       return SetChoice<&NodeConfig::directory_lookups>(value, {"rpc", "one-sided"}, c);
     }},
    {"lease-ms", "How long a reader may use a record; evicted slots rest for as long", "1000",
     SetMillis<&NodeConfig::lease, 50, 60'000>},
    {"dir-cache-ttl-ms",
     "How long a page's location is remembered between exists and get; 0: never; at most the lease",
     "1000", SetMillis<&NodeConfig::dir_cache_ttl, 0, 60'000>},
    {"peer-timeout-ms", "Longest a call may stall on other nodes", "1000",
     SetMillis<&NodeConfig::peer_timeout, 50, kMostPeerTimeout.count()>},
    {"heartbeat-ms", "Time between heartbeats to the discovery hosts", "500",
     SetMillis<&NodeConfig::heartbeat, 20, 60'000>},
    {"member-ttl-ms", "Silence after which a member counts as dead", "3000",
     SetMillis<&NodeConfig::member_ttl, 100, 600'000>},
    {"vnodes", "Points on the ring of a member of average capacity", "160",
     SetNumber<&NodeConfig::vnodes, 1, 4096>},
    {"max-engines", "Engines that may be attached at once", "64",
     SetNumber<&NodeConfig::max_engines, 1, 4096>},
    {"engine-concurrency", "Calls of one engine that are carried out at once; others wait", "16",
     SetNumber<&NodeConfig::engine_concurrency, 1, 64>},
    {"max-engine-memory", "Memory one engine may share, e.g. 512Gi (default: all of this machine)",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       auto bytes = value.empty() ? Result<uint64_t>(uint64_t{0}) : ParseSize(value);
       if (!bytes.ok()) return bytes.status();
       c->max_engine_memory = *bytes;
       return {};
     }},
    {"max-tenant-memory",
     "Memory that all engines of one tenant may share together, e.g. 1Ti (default: all of this "
     "machine)",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       auto bytes = value.empty() ? Result<uint64_t>(uint64_t{0}) : ParseSize(value);
       if (!bytes.ok()) return bytes.status();
       c->max_tenant_memory = *bytes;
       return {};
     }},
    {"max-directory-records", "Records this node's shard holds at most", "16777216",
     SetNumber<&NodeConfig::max_directory_records, 1024, int64_t{1} << 32>},
    {"io-threads",
     "Threads that answer peers, and send them pages over TCP; 0: one for each four cores, 2 to 4",
     "0", SetNumber<&NodeConfig::io_threads, 0, 256>},
    {"copy-threads", "Threads that move the pages of one call; 0: as many as cores, at most 4", "0",
     SetNumber<&NodeConfig::copy_threads, 0, 64>},
    {"auth-token-file",
     "File with the token all nodes of the cluster share, which they prove and never send: write "
     "one with \"openssl rand -hex 32\"; followed when it changes",
     "", SetText<&NodeConfig::auth_token_file>},
    {"auth-spread-ms",
     "Time within which all nodes see a change of auth-token-file; the old token is accepted for "
     "twice as long, and what was connected by it ends then",
     "60000", SetMillis<&NodeConfig::auth_spread, 100, 3'600'000>},
    {"insecure-peers",
     "on | off; on: where there is neither auth-token-file nor TLS, listen to the network "
     "anyway: any process that reaches the peer port is a member",
     "off", SetSwitch<&NodeConfig::insecure_peers>},
    {"tls-cert-file",
     "PEM file with this node's certificate (and those between it and the CA): peers and discovery "
     "speak TLS, and both sides show one; followed when it changes, as are the key and the CAs",
     "", SetText<&NodeConfig::tls_cert_file>},
    {"tls-key-file", "PEM file with the certificate's private key, without a passphrase", "",
     SetText<&NodeConfig::tls_key_file>},
    {"tls-ca-file", "PEM file with the CAs whose certificates peers may show", "",
     SetText<&NodeConfig::tls_ca_file>},
    {"tls-peer-name",
     "DNS name that certificates of peers must carry (default: any certificate of the CAs is a "
     "member's)",
     "",
     [](const std::string& value, NodeConfig* c) -> Status {
       const auto allowed = [](unsigned char ch) {
         return std::isalnum(ch) || ch == '.' || ch == '-';
       };
       if (value.size() > 253 || !std::all_of(value.begin(), value.end(), allowed))
         return InvalidArgument(fmt::format("\"{}\" is not a DNS name", value));
       c->tls_peer_name = value;
       return {};
     }},
    {"log-level", "trace | debug | info | warn | error", "info",
     [](const std::string& value, NodeConfig* c) {
       return SetChoice<&NodeConfig::log_level>(value, {"trace", "debug", "info", "warn", "error"},
                                                c);
     }},
};

}  // namespace

std::span<const ConfigOption> ConfigOptions() { return kOptions; }

disk::DiskOptions NodeConfig::disk_options() const {
  disk::DiskOptions options;
  options.paths = disk_paths;
  options.bytes = disk_bytes;
  options.cluster = cluster;
  options.io = disk_io;
  options.log.max_page_bytes = kLongestDiskPage;
  // Who lets engines wait longer than usual does not want a drive off that is as late.
  auto& slow = options.device.breaker.slow;
  slow = std::max<Duration>(slow, peer_timeout);
  const auto budget = disk::ParseWriteBudget(disk_write_budget, disk_bytes * disk_paths.size());
  options.bytes_a_day = budget.ok() ? *budget : 0;
  return options;
}

Result<NodeConfig> ParseConfig(const std::map<std::string, std::string>& values) {
  NodeConfig config;
  for (const auto& item : values) {
    const auto& [name, value] = item;
    const auto option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                     [&](const ConfigOption& o) { return item.first == o.name; });
    if (option == std::end(kOptions)) {
      std::vector<std::string> names;
      for (const ConfigOption& o : kOptions) names.push_back(o.name);
      return InvalidArgument(
          fmt::format("unknown option \"{}\"; known are {}", name, fmt::join(names, ", ")));
    }
    if (Status s = option->apply(value, &config); !s.ok()) return s.Annotate(name);
  }
  if (!config.pool_file.empty() && !values.contains("drain-budget")) config.drain_budget = 0;
  if (!values.contains("rdma-timeout")) {
    while (!OutlastsLostPacket(config.rdma_queue_stall(), config.rdma_link.timeout))
      --config.rdma_link.timeout;
  }
  if (Status s = CheckWhole(config); !s.ok()) return s;
  return config;
}

}  // namespace peercache
