#include "node/node.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "base/machine.h"
#include "base/prefault.h"
#include "base/thread_limit.h"
#include "directory/shard.h"
#include "membership/table.h"
#include "node/addresses.h"
#include "node/clear/clearing.h"
#include "node/clear/clears.h"
#include "node/config/auto_threads.h"
#include "node/config/exposure.h"
#include "node/disk/disk_pages.h"
#include "node/drain/intake.h"
#include "node/drain/mover.h"
#include "node/engine/bypass.h"
#include "node/engine/engine_sockets.h"
#include "node/engine/pages.h"
#include "node/kept_clears.h"
#include "node/mapped/mapped_reader.h"
#include "node/mapped/pool_server.h"
#include "node/mapped/readable_pool.h"
#include "node/owner/publisher.h"
#include "node/owner/upkeep.h"
#include "node/peer/member_agent.h"
#include "node/peer/peers.h"
#include "node/peer/secret.h"
#include "node/peer/views.h"
#include "node/peer_requests.h"
#include "node/pools.h"
#include "node/read/locator.h"
#include "node/read/one_sided.h"
#include "node/read/replicas.h"
#include "node/read/tcp_reader.h"
#include "node/report/health_report.h"
#include "node/report/http.h"
#include "node/report/line_rate.h"
#include "node/report/metric_families.h"
#include "node/report/metrics.h"
#include "node/report/recorder.h"
#include "node/report/status_json.h"
#include "node/tenant/tenants.h"
#include "node/transport_choice.h"
#include "pool/numa_home.h"
#include "pool/pool_file.h"
#include "transport/tcp/server.h"
#include "transport/tcp/tls.h"
#include "version.h"
#include "wire/frame_memory.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// A call waits on others in at most two rounds (lookup, read); each may stall for a bit less than
// half of the peer time-out, so that the whole stays below it.
Duration StallOf(milliseconds peer_timeout) { return peer_timeout * 2 / 5; }

// An engine that attaches to a node that is still joining waits for it, so that its first reads see
// the cluster; but not for ever, since the node works alone too.
constexpr milliseconds kAttachWait{5000};

uint64_t WallClockNanoseconds() {
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

uint64_t OrMachineMemory(uint64_t limit) {
  if (limit != 0) return limit;
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::vector<NumaRail> NumaRails(const FoundRails& rails) {
  std::vector<NumaRail> numa;
  if (!rails.ok()) return numa;
  for (const rdma::RailSpec& rail : *rails) numa.push_back({rail.name, rail.numa_node});
  return numa;
}

// Where engines attach, for the log.
std::string Where(const NodeConfig& config) {
  if (config.tenants_dir.empty()) return config.socket;
  return fmt::format("{}{}{}/TENANT/{}", config.socket, config.socket.empty() ? "" : " and ",
                     config.tenants_dir, config.tenant_socket_name());
}

std::string DefaultId(const NodeConfig& config) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  // Several embedded nodes share a host; one daemon per group does not.
  return config.peer_port == 0 ? fmt::format("{}.{}.{}", host, config.group, getpid())
                               : fmt::format("{}.{}", host, config.group);
}

}  // namespace

class Node::Impl {
 public:
  explicit Impl(NodeConfig config) : config_(std::move(config)) {}

  // Members are destroyed in reverse: servers first, then what they use.
  Status Start() {
    std::vector<HostPort> discovery;
    if (!config_.discovery_addr.empty()) {
      auto parsed = ParseHostPorts(config_.discovery_addr);
      if (!parsed.ok()) return parsed.status().Annotate("discovery-addr");
      discovery = std::move(*parsed);
    }
    if (config_.node_id.empty()) config_.node_id = DefaultId(config_);
    if (config_.machine == 0) config_.machine = ThisMachine();
    const FoundRails rails = FindRails(config_);
    numa_ = NumaHome(ChooseNumaNode(config_.numa_node, NumaRails(rails)));
    const ScopedCpus here(numa_.plan().cpus);  // what is started below stays there
    const unsigned cores = std::thread::hardware_concurrency();
    const uint32_t io_threads = IoThreads(config_.io_threads, cores);
    const uint32_t copy_threads = CopyThreads(config_.copy_threads, cores);
    // Before the pool is taken: a process that aborts over a thread would leave it without pages.
    ThreadLimit threads = ReadThreadLimit();
    const uint64_t own = NodeThreads(copy_threads, io_threads, rails.ok() ? rails->size() : 0,
                                     config_.disk_paths.size());
    if (Status s = CheckThreads(own, threads); !s.ok()) return s;
    threads.free -= own;

    auto secret = Secret::Load(config_.auth_token_file, config_.cluster, config_.auth_spread);
    if (!secret.ok()) return secret.status().Annotate("auth-token-file");
    secret_ = std::move(*secret);
    if (config_.tls()) {
      auto tls = Tls::Load(config_.tls_files(), Tls::kLookEvery);
      if (!tls.ok()) return tls.status();
      tls_ = std::move(*tls);
    }
    bypass_.emplace(config_.bypass_file);
    auto bind_addr = PeerBindAddress(config_, discovery);
    if (!bind_addr.ok()) return bind_addr.status();
    auto listener = ListenForPeers(config_, *bind_addr, discovery);
    if (!listener.ok()) return listener.status().Annotate("peer-port");
    auto congestion = SetCongestion(listener->fd.get(), config_.tcp_congestion);
    if (!congestion.ok()) return congestion.status().Annotate("tcp-congestion");
    tcp_congestion_ = std::move(*congestion);
    auto address = AdvertisedAddress(config_, discovery);
    if (!address.ok()) return address.status().Annotate("advertise-addr");
    if (Status s = OpenDisk(); !s.ok()) return s.Annotate("disk-path");
    if (Status s = TakeMemory(rails.ok()); !s.ok())
      return config_.pool_file.empty() ? s.Annotate("pool-size") : s;
    auto tenants =
        Tenants::Create({config_.cluster, config_.tenant_secret_file, config_.max_engines,
                         OrMachineMemory(config_.max_tenant_memory), std::move(threads)},
                        pool_.get());
    if (!tenants.ok()) return tenants.status();
    tenants_ = std::move(*tenants);
    auto engines = EngineSockets::Bind({config_.socket, config_.socket_mode, config_.tenant,
                                        config_.tenants_dir, config_.tenant_socket_name()},
                                       tenants_.get());
    if (!engines.ok()) return engines.status();
    engines_ = std::move(*engines);
    auto fabric = OpenFabric(config_, rails, pool_->memory().bytes());
    if (!fabric.ok()) return fabric.status().Annotate("transport");
    transport_ = std::move(*fabric);

    self_.id = config_.node_id;
    // Grows with every start, but for clocks that go back (OwnerTable::Admit); wall clock, so that
    // no state has to survive. model: StartOwner
    self_.incarnation = config_.incarnation != 0 ? config_.incarnation : WallClockNanoseconds();
    if (pool_->file() != nullptr) self_.incarnation = pool_->file()->Incarnation(self_.incarnation);
    self_.host = std::move(*address);
    self_.peer_port = listener->port;
    self_.capacity_bytes = pool_->size();

    const Hello hello{config_.cluster, fmt::format("{}:{}", self_.host, self_.peer_port),
                      NodeHash(self_.id), self_.incarnation, config_.machine};
    const Duration stall = StallOf(config_.peer_timeout);
    ShardOptions shard_options;
    shard_options.self = hello.node;
    shard_options.max_records = config_.max_directory_records;
    shard_options.owner_ttl = config_.member_ttl;
    shard_options.forget_after =
        std::max<Duration>(std::chrono::minutes(1), config_.member_ttl * 4);
    if (transport_.fabric) shard_options.buckets = pool_->beside();
    shard_ = std::make_unique<Shard>(shard_options);
    TableOptions table_options;
    table_options.member_ttl = config_.member_ttl;
    table_options.warm_up = config_.heartbeat * 3;
    table_ = std::make_unique<Table>(table_options, Clock::now());
    const OwnerTimes times{.lease = config_.lease, .owner_ttl = config_.member_ttl};
    peers_ = std::make_unique<Peers>(hello, secret_.get(), times, tls_.get(), &frame_memory_);
    if (transport_.fabric) transport_.fabric->Start(peers_.get(), secret_.get());
    const auto sweep = [this](const ClearOrder& order) { return Sweep(order); };
    clears_ =
        std::make_unique<Clears>(KeptClears({config_.peer_timeout, stall, config_.member_ttl},
                                            *pool_, disk_.get(), !config_.discovery_addr.empty()),
                                 peers_.get(), &views_, &counters_, sweep);
    clearing_ = std::make_unique<Clearing>(
        ClearingOptions{self_.id, config_.peer_timeout, stall, peers_->remember(),
                        [this] { return disk_ && disk_->unrecorded(); }},
        peers_.get(), clears_.get(), &counters_, sweep);
    holdings_.emplace(pool_.get());
    if (disk_) disk_->Start(pool_.get(), room_.get());
    publisher_ = std::make_unique<Publisher>(
        PublisherOptions{self_.incarnation, config_.lease, config_.peer_timeout, stall,
                         std::min<Duration>(config_.member_ttl / 6, milliseconds(1000))},
        shard_.get(), &*holdings_, peers_.get(), &views_, &counters_, clears_.get(),
        disk_ ? disk_->holdings() : nullptr);
    if (disk_)
      disk_->Serve(publisher_.get(), [this](const ClearState& known) { return Missed(known); });
    LocatorOptions locator_options;
    locator_options.stall = stall;
    locator_options.lease = config_.lease;
    locator_options.cache_ttl = config_.dir_cache_ttl;
    if (transport_.fabric && config_.one_sided_lookups()) {
      one_sided_ = std::make_unique<OneSidedLookups>(config_.member_ttl, transport_.fabric.get(),
                                                     peers_.get(), &counters_);
    }
    locator_ = std::make_unique<Locator>(locator_options, shard_.get(), peers_.get(),
                                         transport_.fabric.get(), one_sided_.get(), &counters_);

    MapPools(hello);
    tcp_reader_ = std::make_unique<TcpReader>(TcpReaderOptions{config_.lease, stall}, peers_.get());

    if (config_.http) {
      auto http = Http::Bind(config_.bind_addr, config_.http_port, Handlers());
      if (!http.ok()) return http.status();
      http_ = std::move(*http);
      self_.http_port = http_->port();
    }
    MemberAgentOptions agent_options;
    agent_options.discovery = std::move(discovery);
    agent_options.heartbeat = config_.heartbeat;
    agent_options.member_ttl = config_.member_ttl;
    agent_options.stall = stall;
    agent_options.vnodes = config_.vnodes;
    requests_ = std::make_unique<PeerRequests>(
        hello, secret_.get(), pool_.get(), shard_.get(), table_.get(), &counters_,
        transport_.fabric.get(), clears_.get(),
        [this](uint64_t tag) { return Sweep({.tags = tag}); },
        [this](const OfferRequest& offer) { return Take(offer); }, disk_.get());
    TcpServerOptions server_options;
    server_options.threads = io_threads;
    server_options.tls = tls_.get();
    server_options.memory = &frame_memory_;
    server_ = std::make_unique<TcpServer>(std::move(*listener), requests_.get(), server_options);
    recorder_.emplace(Recorded{&counters_, pool_.get(), transport_.fabric.get(), peers_.get(),
                               &views_, table_.get(), config_.machine});
    if (Status status = recorder_->Start(); !status.ok()) return status;
    health_ = std::make_unique<HealthReport>(config_.group, &counters_, pool_.get(),
                                             transport_.fabric.get(), &*recorder_, disk_.get());
    agent_ =
        std::make_unique<MemberAgent>(std::move(agent_options), self_, &views_, peers_.get(),
                                      &counters_, [this] { return health_->Now(Clock::now()); });
    UpkeepOptions upkeep_options;
    upkeep_options.lease = config_.lease;
    upkeep_options.watermarks = config_.watermarks;
    upkeep_ = std::make_unique<Upkeep>(
        upkeep_options, pool_.get(), replicas_.get(), shard_.get(), publisher_.get(), &views_,
        room_.get(), [this](const View& view) { agent_->Synced(view); },
        disk_ ? disk_->behind() : nullptr);
    intake_ = std::make_unique<Intake>(
        IntakeOptions{config_.lease, config_.peer_timeout, stall, config_.checksums}, pool_.get(),
        peers_.get(), &views_, publisher_.get(), locator_.get(), room_.get(), Readers(), &counters_,
        [this] { return upkeep_->reserve_bytes(); });
    upkeep_ready_ = true;
    if (Status s = clears_->Start(); !s.ok()) return s;
    pages_ = std::make_unique<Pages>(PagesOptions{config_.lease, config_.peer_timeout, stall,
                                                  config_.checksums, copy_threads, &*bypass_},
                                     pool_.get(), &views_, peers_.get(), publisher_.get(),
                                     locator_.get(), replicas_.get(), room_.get(), Readers(),
                                     clears_.get(), &counters_, disk_.get());
    EngineServerOptions engine_options;
    engine_options.node_id = self_.id;
    engine_options.max_engines = config_.max_engines;
    engine_options.uids = config_.socket_uids;
    engine_options.engine_concurrency = config_.engine_concurrency;
    engine_options.memory = &frame_memory_;
    engine_options.max_engine_memory = OrMachineMemory(config_.max_engine_memory);
    const EngineServices services{tenants_.get(),
                                  pages_.get(),
                                  transport_.fabric.get(),
                                  &counters_,
                                  [this] { AwaitJoined(Clock::now() + kAttachWait); },
                                  [this](uint64_t tag) { return Clear(tag); }};
    if (Status s = engines_->Serve(engine_options, services); !s.ok()) return s;
    serving_ = true;
    numa_.Settled(here.status(), pool_->memory());
    health_->Serve(engines_.get(), &numa_);
    started_ = Clock::now();
    if (http_) {  // last: its handlers look at everything above
      if (Status s = http_->Serve(); !s.ok()) return s;
    }
    spdlog::info("node {} (peercached {}): peers at {}:{}{}, engines at {}, pool {} MiB{}; {}",
                 self_.id, kVersion, self_.host, self_.peer_port, tls_ ? " (TLS)" : "",
                 Where(config_), pool_->size() >> 20,
                 http_ ? fmt::format(", http port {}", http_->port()) : "", transport_.why);
    return {};
  }

  ~Impl() {
    if (disk_) disk_->Stop();
    http_.reset();
    if (health_) health_->Stop();
    serving_ = false;
    engines_.reset();
    if (clears_) clears_->Stop();
    upkeep_ready_ = false;
    server_.reset();
    intake_.reset();
    upkeep_.reset();
    agent_.reset();
  }

  Status Ready() const {
    if (!agent_ || !serving_) return Unavailable("starting");
    if (left_) return Unavailable("this node has left the cluster");
    if (views_.Get() == nullptr) {
      const auto hosts = agent_->hosts();
      // /readyz tells it to anybody, so without the addresses themselves.
      return Unavailable(
          fmt::format("no discovery host has answered yet ({} addresses of discovery-addr known{})",
                      hosts.addresses.size(),
                      hosts.refusing == 0
                          ? ""
                          : fmt::format("; {} of them and this node refuse each other: give all "
                                        "nodes the same --cluster, --auth-token-file contents "
                                        "and TLS options; the log names the one that differs",
                                        hosts.refusing)));
    }
    switch (agent_->state()) {
      case MemberState::kJoining: return Unavailable("joining: waiting for the members to prepare");
      case MemberState::kDraining: return Unavailable("draining");
      case MemberState::kActive: break;
    }
    return {};
  }

  void Leave(milliseconds limit) {
    if (left_.exchange(true) || !agent_) return;
    const TimePoint start = Clock::now();
    intake_->Close();
    agent_->Drain();
    // Half of the time at most: that others have this node's shard matters more than its pages.
    Mover(self_.incarnation, StallOf(config_.peer_timeout), pool_.get(), peers_.get(), &views_,
          &counters_)
        .Move(config_.drain_budget, start + limit / 2);
    const bool complete = agent_->Leave(start + limit - Clock::now());
    upkeep_->Disown();
    // Others drop this node with their next heartbeat; until then their lookups still come here.
    // And who has asked a moment ago reads here for a lease.
    const auto view = views_.Get();
    if (view != nullptr && view->members.size() > 1)
      std::this_thread::sleep_for(std::max(config_.heartbeat * 2, config_.lease));
    spdlog::info("left the cluster{}", complete ? "" : " before everyone had taken over");
  }

  std::string StatusText(Asker asker) const {
    NodeStatus status;
    status.self = self_;
    status.self.state = agent_ ? agent_->state() : MemberState::kJoining;
    status.group = config_.group;
    status.ready = Ready();
    status.bypassed = bypass_->on();
    status.uptime = Clock::now() - started_;
    status.view = views_.Get();
    if (agent_) status.hosts = agent_->hosts();
    status.reports = table_->Reports(Clock::now());
    status.warming = table_->warming(Clock::now());
    status.pool = pool_->stats();
    status.adoption = pool_->adoption();
    if (disk_) status.disk = disk_->report();
    status.room = room_->stats();
    if (upkeep_ready_) status.reserve_bytes = upkeep_->reserve_bytes();
    status.shard = shard_->stats(Clock::now());
    if (serving_) {
      status.slow = pages_->SlowPlaces();
      status.engines = engines_->engines();
      status.unserved_tenants = engines_->unserved();
    }
    status.tenants = tenants_->infos();
    status.unhealthy = peers_->Unhealthy(Clock::now());
    status.tls = TlsStats();
    status.transport = transport_.why;
    status.tcp_congestion = tcp_congestion_;
    if (transport_.fabric) status.fabric = transport_.fabric->stats();
    for (const RailInfo& rail : status.fabric.rails)
      status.line_rates.push_back(LineRate(rail.name));
    status.numa = numa_.stats();
    status.activity = recorder_->Latest();
    status.events = recorder_->Past(Clock::now());
    return ToJson(status, config_, counters_, asker);
  }

  const NodeConfig& config() const { return config_; }
  const Member& self() const { return self_; }

 private:
  // How pages come from other nodes, the fastest way first.
  std::vector<PageReader*> Readers() const {
    std::vector<PageReader*> readers;
    if (mapped_reader_) readers.push_back(mapped_reader_.get());
    if (transport_.fabric) readers.push_back(transport_.fabric.get());
    readers.push_back(tcp_reader_.get());
    return readers;
  }
  // Pools of nodes on this machine are read where they are. With TLS and no secret, who connects to
  // a socket has proven nothing.
  void MapPools(const Hello& hello) {
    const std::string directory = config_.shared_directory();
    if (!config_.map_pools || directory.empty() || (secret_->none() && config_.tls())) return;
    mapped_reader_ = std::make_unique<MappedReader>(directory, hello, peers_.get(), secret_.get());
    if (Status s = ServePool(directory, hello); !s.ok())
      spdlog::warn("nodes of this machine read this node's pages as others do (map-pools): {}",
                   s.message());
  }
  Status ServePool(const std::string& directory, Hello holder) {
    const PoolFile* const file = pool_->file();
    if (file != nullptr && config_.pool_file_view.empty()) {
      spdlog::info(
          "nodes of this machine read this node's pages as others do: pool-file is set "
          "without pool-file-view");
      return {};
    }
    auto readable = file == nullptr
                        ? ReadableMemory(pool_->memory())
                        : ReadableFile(pool_->memory(), file->path(), config_.pool_file_view);
    if (!readable.ok()) return readable.status();
    holder.to = PoolSocket(directory, holder.node);
    pool_server_ =
        std::make_unique<PoolServer>(directory, holder, secret_.get(), std::move(*readable));
    return {};
  }
  // The drives, before the pool, which takes its generations from there.
  Status OpenDisk() {
    if (config_.disk_paths.empty()) return {};
    auto disk = DiskPages::Open(config_.disk_options(), config_.peer_timeout);
    if (!disk.ok()) return disk.status();
    disk_ = std::move(*disk);
    return {};
  }
  std::optional<std::vector<disk::MissedClear>> Missed(const ClearState& known) const {
    const auto orders = clears_->Differing(known);
    if (!orders) return std::nullopt;
    std::vector<disk::MissedClear> missed;
    for (const ClearOrder& order : *orders) missed.push_back({order.tags, order.epoch});
    return missed;
  }
  Status TakeMemory(bool rails) {
    auto made =
        MakePools(config_, numa_.plan().memory_node, disk_ ? disk_->generations() : nullptr, rails);
    if (!made.ok()) return made.status();
    pool_ = std::move(made->pool);
    room_ = std::make_unique<Room>(pool_.get());
    if (config_.prefault) {
      const auto prefault = [this](Pool& of, std::function<void()> then) {
        prefault_.push_back(std::make_unique<Prefault>(std::span(of.base(), of.size()),
                                                       Prefault::kAll, std::move(then)));
      };
      prefault(*pool_, [this] { numa_.Touched(pool_->memory()); });
      if (made->replicas) prefault(*made->replicas, {});
    }
    replicas_ =
        std::make_unique<Replicas>(std::move(made->replicas), PromotionOf(config_, pool_.get()));
    return {};
  }

  std::optional<Tls::Stats> TlsStats() const {
    return tls_ ? std::optional(tls_->stats()) : std::nullopt;
  }

  HttpHandlers Handlers() {
    return {.healthy = [] { return Status(); },
            .ready = [this] { return Ready(); },
            .metrics = [this] { return MetricsText(Observe()); },
            .status = [this](Asker asker) { return StatusText(asker); },
            .history = [this] { return recorder_->HistoryJson(); }};
  }

  Scrape Observe() const {
    const TimePoint now = Clock::now();
    Scrape s;
    s.counters = &counters_;
    s.pool = pool_->stats();
    s.adoption = pool_->adoption();
    if (disk_) s.disk = disk_->report();
    s.replicas = replicas_->stats();
    s.room = room_->stats();
    if (upkeep_ready_) s.reserve_bytes = upkeep_->reserve_bytes();
    s.shard = shard_->stats(now);
    s.repair_backlog = publisher_->backlog();
    s.clears = clears_->stats(now);
    s.view = views_.Get();
    s.breakers = peers_->breakers(now);
    if (server_) s.server = server_->stats();
    s.frames = frame_memory_.stats();
    s.tls = TlsStats();
    if (http_) s.http = http_->stats();
    if (transport_.fabric) s.fabric = transport_.fabric->stats();
    if (agent_) {
      const MemberAgent::Hosts hosts = agent_->hosts();
      s.discovery_hosts = hosts.addresses.size();
      s.discovery_answering = hosts.answering;
    }
    s.ready = Ready().ok();
    s.bypassed = bypass_->on();
    s.uptime = now - started_;
    s.tenants = tenants_->infos();
    if (!config_.tenant_metrics) s.tenants = {Together(s.tenants)};
    if (serving_) {
      s.unserved_tenants = engines_->unserved();
      for (const EngineInfo& engine : engines_->engines()) {
        ++s.engines;
        s.engine_connections += engine.connections;
        s.engine_shared_bytes += engine.region_bytes;
        s.prefill_told += engine.prefill != 0;
        s.prefill_sum += engine.prefill;
      }
    }
    s.max_engines = config_.max_engines;
    s.max_records = config_.max_directory_records;
    s.max_peer_connections = TcpServerOptions().max_connections;
    s.process = ReadProcessStats();
    s.numa = numa_.stats();
    return s;
  }

  // An engine that attaches while this node starts: its first reads see the cluster.
  void AwaitJoined(TimePoint deadline) {
    if (views_.Wait(deadline) != nullptr) (void)clears_->Await(Clock::now(), deadline);
  }

  Status Clear(uint64_t tag) {
    if (views_.Wait(Clock::now() + config_.peer_timeout) == nullptr)
      return Unavailable("clear: this node knows no other member yet; repeat it when it is ready");
    return clearing_->Clear(tag);
  }

  Result<OfferAnswer> Take(const OfferRequest& offer) {
    if (!upkeep_ready_) return Status(Code::kAborted, "this node is starting, or about to end");
    return intake_->Answer(offer);
  }

  size_t Sweep(const ClearOrder& order) {
    locator_->ForgetAll();
    replicas_->Clear();
    // Pages of the process before may be there already, and nobody to take them out of service.
    if (!upkeep_ready_) return pool_->file() != nullptr || disk_ ? 1 : 0;
    intake_->Forget();
    const size_t left = upkeep_->Clear(order.tags);
    // Without an epoch it is not recorded, and comes again with one.
    if (left > 0 || !disk_ || order.epoch == 0) return left;
    disk_->Clear(order.tags, order.epoch, order.forgotten);
    return upkeep_->Clear(order.tags);  // what came back from the disk meanwhile
  }

  NodeConfig config_;
  Member self_;
  TimePoint started_ = Clock::now();
  Counters counters_;
  Views views_;
  NumaHome numa_;
  FrameMemory frame_memory_;
  std::atomic<bool> left_{false}, upkeep_ready_{false}, serving_{false};
  std::unique_ptr<Secret> secret_;
  std::unique_ptr<Tls> tls_;  // null: peers speak without TLS
  std::optional<Bypass> bypass_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Tenants> tenants_;
  std::unique_ptr<Replicas> replicas_;
  std::vector<std::unique_ptr<Prefault>> prefault_;  // of the two pools
  std::unique_ptr<Room> room_;
  std::unique_ptr<DiskPages> disk_;  // null without
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<Peers> peers_;
  std::string tcp_congestion_;
  Transport transport_;  // serves the pool, reads from the peers
  std::unique_ptr<Clears> clears_;
  std::unique_ptr<Clearing> clearing_;
  std::optional<PoolHoldings> holdings_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<OneSidedLookups> one_sided_;  // null: shards are asked
  std::unique_ptr<Locator> locator_;
  std::unique_ptr<PoolServer> pool_server_;
  std::unique_ptr<MappedReader> mapped_reader_;
  std::unique_ptr<TcpReader> tcp_reader_;
  std::optional<Recorder> recorder_;
  std::unique_ptr<HealthReport> health_;
  std::unique_ptr<MemberAgent> agent_;
  std::unique_ptr<Upkeep> upkeep_;
  std::unique_ptr<Intake> intake_;
  std::unique_ptr<Http> http_;
  std::unique_ptr<PeerRequests> requests_;
  std::unique_ptr<TcpServer> server_;
  std::unique_ptr<Pages> pages_;
  std::unique_ptr<EngineSockets> engines_;
};

Node::Node(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Node::~Node() = default;

Result<std::unique_ptr<Node>> Node::Start(NodeConfig config) {
  auto impl = std::make_unique<Impl>(std::move(config));
  if (Status s = impl->Start(); !s.ok()) return s;
  return std::unique_ptr<Node>(new Node(std::move(impl)));
}

bool Node::ready() const { return impl_->Ready().ok(); }
const std::string& Node::socket() const { return impl_->config().socket; }
uint16_t Node::peer_port() const { return impl_->self().peer_port; }
uint16_t Node::http_port() const { return impl_->self().http_port; }
std::string Node::StatusJson() const { return impl_->StatusText(Asker::kOwnMachine); }
void Node::Leave(milliseconds limit) { impl_->Leave(limit); }

}  // namespace peercache
