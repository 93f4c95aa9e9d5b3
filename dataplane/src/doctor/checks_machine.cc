// Memory, NUMA, limits, and who can be reached.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/memory.h"
#include "base/size.h"
#include "doctor/checks.h"
#include "node/rails/fabric.h"
#include "pool/numa_home.h"
#include "transport/rdma/find_rails.h"

namespace peercache::doctor {
namespace {

constexpr uint64_t k2MiB = uint64_t{2} << 20;
constexpr uint64_t k1GiB = uint64_t{1} << 30;
// Descriptors for all but links over RDMA: connections of engines and of peers, memory, files.
constexpr uint64_t kOtherDescriptors = 1024;
// Of eight calls at once to each of 64 peers.
constexpr uint64_t kFewLinks = 512;
constexpr char kRaiseDescriptors[] =
    "raise the hard limit (LimitNOFILE of the container runtime's or the node's service)";

std::vector<NumaRail> NumaRails(const Result<rdma::Selection>& rails) {
  std::vector<NumaRail> numa;
  if (!rails.ok()) return numa;
  for (const rdma::SelectedPort& rail : rails->ports)
    numa.push_back({rail.port->Name(), rail.port->numa_node});
  return numa;
}

// On `node`, or on all when it is -1.
uint64_t FreeHugeBytes(const Facts& facts, uint64_t page_size, int node) {
  uint64_t bytes = 0;
  for (const HugePagePool& pool : facts.huge_pages)
    if (pool.page_size == page_size && (node < 0 || pool.numa_node == node))
      bytes += pool.free * page_size;
  return bytes;
}

// Of the pages that the pool will be made of; 0: small ones.
uint64_t HugePageSize(const Facts& facts) {
  switch (facts.config.huge_pages) {
    case HugePages::kOff: return 0;
    case HugePages::k2Mi: return k2MiB;
    case HugePages::k1Gi: return k1GiB;
    case HugePages::kAuto: break;
  }
  return facts.config.pool_bytes <= FreeHugeBytes(facts, k2MiB, -1) ? k2MiB : 0;
}

Finding NumaMemoryFinding(const Facts& facts, const NumaPlan& plan) {
  if (facts.running.ok()) {
    const bool good = facts.running->numa_placement == NumaMemoryName(NumaMemory::kBound);
    return {good ? Grade::kOk : Grade::kWarning, "NUMA memory",
            fmt::format("the node that runs here: {}: {}", facts.running->numa_placement,
                        facts.running->numa_why)};
  }
  if (plan.memory_node < 0) return {Grade::kWarning, "NUMA memory", plan.memory_why};
  const uint64_t huge = HugePageSize(facts);
  NumaFree free{huge > 0 ? FreeHugeBytes(facts, huge, plan.memory_node) : 0, huge > 0};
  if (const auto small = facts.small_pages_free.find(plan.memory_node);
      huge == 0 && small != facts.small_pages_free.end())
    free.bytes = small->second;
  const NumaMemoryChoice choice = ChooseNumaMemory(plan.memory_node, facts.config.pool_bytes, free);
  return {choice.memory == NumaMemory::kBound ? Grade::kOk : Grade::kWarning, "NUMA memory",
          choice.why};
}

// Those whose devices lock what is registered with them.
size_t LockingRails(const Facts& facts, const rdma::Selection& rails) {
  return static_cast<size_t>(
      std::count_if(rails.ports.begin(), rails.ports.end(), [&](const rdma::SelectedPort& rail) {
        return !facts.config.rdma_link.on_demand_paging ||
               !rail.device->limits.on_demand_paging.ok();
      }));
}

}  // namespace

Findings CheckNuma(const Facts& facts, const Result<rdma::Selection>& rails) {
  const std::vector<NumaRail> numa_rails = NumaRails(rails);
  const NumaWish wish = ChooseNumaNode(facts.config.numa_node, numa_rails);
  if (wish.node < 0) {
    std::set<int> nodes;
    for (const NumaRail& rail : numa_rails)
      if (rail.numa_node >= 0) nodes.insert(rail.numa_node);
    const bool apart = facts.config.numa_node == kNumaAuto && nodes.size() > 1;
    return {{apart ? Grade::kWarning : Grade::kNote, "NUMA", wish.why}};
  }
  Findings findings = {{Grade::kOk, "NUMA", fmt::format("node {}: {}", wish.node, wish.why)}};
  const NumaPlan plan = PlanNuma(wish.node, facts.numa_nodes, facts.allowed_cpus);
  findings.push_back(
      {plan.cpus.empty() ? Grade::kWarning : Grade::kOk, "NUMA threads", plan.threads_why});
  findings.push_back(NumaMemoryFinding(facts, plan));
  return findings;
}

Findings CheckMemory(const Facts& facts) {
  const uint64_t pool = facts.config.pool_bytes;
  if (facts.running.ok()) {
    const bool wanted = facts.config.huge_pages != HugePages::kOff;
    return {{facts.running->huge_pages || !wanted ? Grade::kOk : Grade::kWarning, "huge pages",
             facts.running->huge_pages
                 ? "the node that runs here has its pool in huge pages"
                 : fmt::format("the node that runs here has its pool in small pages{}",
                               wanted ? ": reserve 2Mi pages for it and start it again" : "")}};
  }
  Findings findings;
  const uint64_t page_size = HugePageSize(facts);
  if (page_size == 0) {
    if (const Status fits = CheckFits("pool", pool, facts.memory); !fits.ok())
      findings.push_back({Grade::kFault, "memory", fits.message()});
    if (facts.config.huge_pages == HugePages::kOff) {
      findings.push_back({Grade::kNote, "huge pages", "off: the pool is in small pages"});
    } else {
      findings.push_back(
          {Grade::kWarning, "huge pages",
           fmt::format("{} of 2Mi pages are free, the pool has {}: it goes into small pages, which "
                       "takes longer to register and costs the device more look-ups; reserve {} "
                       "(nr_hugepages; in Kubernetes, hugepages-2Mi)",
                       FormatSize(FreeHugeBytes(facts, k2MiB, -1)), FormatSize(pool),
                       (pool + k2MiB - 1) / k2MiB)});
    }
    return findings;
  }
  const uint64_t pages = FreeHugeBytes(facts, page_size, -1) / page_size;
  const Status fits = CheckHugePages("pool", pool, page_size, {pages, pages, 0});
  if (fits.ok())
    findings.push_back({Grade::kOk, "huge pages",
                        fmt::format("{} free pages of {}", pages, FormatSize(page_size))});
  else
    findings.push_back({Grade::kFault, "huge pages", fits.message()});
  return findings;
}

Findings CheckIdle(const Facts& facts) {
  if (!facts.halt_poll) return {};
  if (facts.halt_poll->count() > 0) {
    return {
        {Grade::kOk, "idle processors",
         fmt::format("poll for {:.3g} us before they halt", ToSeconds(*facts.halt_poll) * 1e6)}};
  }
  // A note: PeerCache works, and the setting is the machine's.
  return {{Grade::kNote, "idle processors",
           "halt at once, and the host of this virtual machine takes some 50 us to wake one, four "
           "times in a get of another node's pages; `echo 200000 > "
           "/sys/module/haltpoll/parameters/guest_halt_poll_ns` lets them poll first (200 us is "
           "the kernel's default)"}};
}

Findings CheckMemlock(const Facts& facts, const Result<rdma::Selection>& rails) {
  const rdma::Memlock& memlock = facts.memlock;
  if (memlock.ipc_lock)
    return {{Grade::kOk, "memlock", "the capability IPC_LOCK is in effect: no limit binds"}};
  if (memlock.limit == UINT64_MAX) return {{Grade::kOk, "memlock", "unlimited"}};
  // Without rails nothing is locked.
  if (!rails.ok()) {
    return {{Grade::kNote, "memlock",
             fmt::format("RLIMIT_MEMLOCK is {}; only RDMA needs more", FormatSize(memlock.limit))}};
  }
  const size_t locking = LockingRails(facts, *rails);
  if (locking == 0) {
    return {{Grade::kNote, "memlock",
             fmt::format("rdma-odp is on and every rail's device pages on demand: no pool is "
                         "locked; queue pairs and completion queues are, within RLIMIT_MEMLOCK, "
                         "which is {}",
                         FormatSize(memlock.limit))}};
  }
  const uint64_t bytes = LockedOfEachRail(facts.config.pool_bytes);
  if (const Status s = rdma::CheckMemlock(kLocked, bytes, locking, memlock); !s.ok())
    return {{Grade::kFault, "memlock", s.message()}};
  return {{Grade::kWarning, "memlock",
           fmt::format("RLIMIT_MEMLOCK is {}, enough for the {} that the pool locks; the engines' "
                       "host pools come on top, on each rail: {}",
                       FormatSize(memlock.limit), FormatSize(rdma::LockedBy(bytes, locking)),
                       rdma::MemlockRemedy(memlock))}};
}

Findings CheckDescriptors(const Facts& facts, const Result<rdma::Selection>& rails) {
  const auto [soft, hard] = facts.descriptors;
  const std::string limits =
      soft < hard ? fmt::format("{}, which the node raises to {} when it starts", soft, hard)
                  : std::to_string(hard);
  // A link has queue pairs on each rail, with a descriptor each, and a connection.
  uint64_t queues = 0;
  if (rails.ok()) {
    for (const rdma::SelectedPort& rail : rails->ports)
      queues += facts.config.rdma_link.queues > 0 ? facts.config.rdma_link.queues
                                                  : rdma::QueuesFor(*rail.port);
  }
  const uint64_t of_link = queues + 1;
  const uint64_t links = hard > kOtherDescriptors ? (hard - kOtherDescriptors) / of_link : 0;
  if (queues == 0) {
    if (hard >= 2 * kOtherDescriptors) return {{Grade::kOk, "descriptors", limits}};
    return {{Grade::kWarning, "descriptors",
             limits + ": few for a cluster of many nodes and engines; " + kRaiseDescriptors}};
  }
  const std::string room = fmt::format("{}: room for {} links over RDMA", limits, links);
  if (links >= std::min<uint64_t>(kFewLinks, facts.config.rdma_max_queues / queues))
    return {{Grade::kOk, "descriptors", room}};
  return {{Grade::kWarning, "descriptors",
           fmt::format("{} of {} descriptors each, and calls use several to a peer; pages of "
                       "further peers come over TCP; {}",
                       room, of_link, kRaiseDescriptors)}};
}

Findings CheckReach(const Facts& facts) {
  Findings findings;
  size_t answering = 0;
  // A host that is this one answers as soon as there is a node here.
  const auto to_come = [&](const Reach& r) { return r.local && !facts.running.ok(); };
  for (const Reach& r : facts.reach)
    if (r.kind == Reach::Kind::kDiscovery && (r.status.ok() || to_come(r))) ++answering;
  if (facts.config.discovery_addr.empty())
    findings.push_back({Grade::kNote, "discovery", "discovery-addr is empty: this node alone"});
  for (const Reach& r : facts.reach) {
    const bool discovery = r.kind == Reach::Kind::kDiscovery;
    const std::string subject = (discovery ? "discovery " : "member ") + r.name;
    if (r.status.ok()) {
      findings.push_back({Grade::kOk, subject,
                          fmt::format("{} accepts, {:.1f} ms", r.address,
                                      std::chrono::duration<double, std::milli>(r.took).count())});
    } else if (to_come(r)) {
      findings.push_back({Grade::kNote, subject,
                          fmt::format("{} is this host, where no node runs yet", r.address)});
    } else {
      findings.push_back(
          {discovery && answering == 0 ? Grade::kFault : Grade::kWarning, subject,
           fmt::format(
               "{}: {}; check that a node runs there, and the firewalls and network policies "
               "on the way",
               r.address.empty() ? r.name : r.address, r.status.message())});
    }
  }
  if (!facts.running.ok())
    findings.push_back({Grade::kNote, "members", facts.running.status().message()});
  return findings;
}

}  // namespace peercache::doctor
