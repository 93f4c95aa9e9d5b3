// How a call reads over RDMA (Read).
//   1. Group the pages by holder, and take an idle link to each holder (links.h). Pages of a holder
//      without one, of another incarnation, or with less than 20 ms of lease left go back: TCP
//      reads them in the same call.
//   2. Enter the engine's permit once for all READs. NICs write until READs have completed,
//      whatever this process does, so the permit is held until then.
//   3. Rounds: each link gets scratch memory for headers (header_memory.h) and as many pages as
//      that has headers for. One thread, the caller's, advances all links (run_reads.h). While
//      bytes are on their way it computes checksums of pages that are whole (early_checks.h).
//   4. A page counts if the last completion of its link came within the page's lease, by a clock
//      that is read after the completions.
// No round begins after last_post, two fifths of peer-timeout-ms after the first: what was not
// tried by then goes back.
//
// Benefits: no hand-over between threads and no lock while READs are under way; rails and holders
// are read at the same time.
// Costs: a call has its links for itself. As many calls as read from one peer at a time need as
// many links to it; beyond rdma-max-queues they read over TCP.
//
// Rejected:
// - queue pairs that all calls share, behind a thread that dispatches completions: each call would
//   pay for waking two threads, and small calls would wait for large ones;
// - links for each engine: their number would grow with engines times peers;
// - registering memory for each call: the kernel takes longer to pin it than READs take.
#include "node/rails/fabric.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "node/batch/node_groups.h"
#include "node/rails/early_checks.h"
#include "transport/rdma/memlock.h"

namespace peercache {
namespace {

// With less of its lease left than this a page is not read one-sided: it would most likely come too
// late.
constexpr Duration kLeastLease = milliseconds(20);
// Of the stall of a call, what making a link to this node itself may take, for which the peers'
// READs of the call wait. It is made in a few milliseconds.
constexpr int kOwnLinkShare = 4;
// Links to this node itself that are kept, and for how long without use.
constexpr size_t kIdleOwn = 4;
constexpr Duration kOwnIdles = std::chrono::minutes(1);
// Registered within some 50 ms, most of which is the kernel clearing it: far less than an engine's
// time-out. Staging memory is smaller; its first read follows at once, and would go over TCP.
constexpr size_t kShortBytes = size_t{64} << 20;

}  // namespace

// A holder, what is to be read from it, and the link it is read over.
struct Fabric::Work {
  std::unique_ptr<Link> link;
  PeerRef holder;       // null: this node itself
  uint64_t queued = 0;  // bytes that were on their way from there before
  UnderWay reading;
  // What was not tried yet goes to `untried`.
  void GiveBack(std::vector<size_t>* untried) {
    untried->insert(untried->end(), rest.begin() + static_cast<ptrdiff_t>(next), rest.end());
    next = rest.size();
  }
  std::vector<size_t> rest;  // indices of pages, from `next` on
  size_t next = 0;
  // The round at work.
  size_t count = 0;
  HeaderMemory::Block block;
  std::vector<rdma::PageRead> reads;
  std::vector<rdma::PageState> states;
};

Fabric::Fabric(const FabricOptions& options)
    : stall_(options.peer_timeout * 2 / 5),
      queue_stall_(options.queue_stall),
      spin_(options.spin),
      max_queues_(options.max_queues) {}

// What rails call when their devices change is not there any longer than this.
Fabric::~Fabric() {
  if (rails_) rails_->Stop();
}

Result<std::unique_ptr<Fabric>> Fabric::Open(const FabricOptions& options,
                                             std::span<const rdma::RailSpec> rails,
                                             std::span<std::byte> pool) {
  auto fabric = std::unique_ptr<Fabric>(new Fabric(options));
  auto opened = rdma::Rails::Open(rails, options.link);
  if (!opened.ok()) return opened.status();
  fabric->rails_ = std::move(*opened);
  // Before gigabytes are brought in for nothing.
  if (Status s = rdma::CheckMemlock(kLocked, LockedOfEachRail(pool.size()),
                                    fabric->rails_->locking(), rdma::ReadMemlock());
      !s.ok())
    return s;
  fabric->rails_->OnDeviceChange(
      [f = fabric.get()](size_t rail) { return f->registered_.Renew(*f->rails_, rail); });
  // Where peers read, and where lands what a node takes over.
  const auto registered = fabric->registered_.Register(
      "pool", pool, *fabric->rails_, rdma::Registration::For::kRemoteRead, nullptr);
  if (!registered.ok()) return registered.status();
  fabric->pool_ = *registered;
  fabric->acceptor_ = std::make_unique<rdma::Acceptor>(fabric->rails_.get(), &fabric->registered_,
                                                       pool, options.max_queues);
  fabric->headers_ = std::make_unique<HeaderMemory>(fabric->rails_.get(), &fabric->registered_);
  return fabric;
}

void Fabric::Start(const Peers* peers, const Secret* secret) {
  peers_ = peers;
  keys_ = std::make_unique<PoolKeys>(rails_.get(), &registered_, pool_, secret);
  LinkOptions options;
  options.connect = stall_;
  options.max_queues = max_queues_;
  links_ = std::make_unique<Links>(options, rails_.get(), peers, headers_.get(), &registered_);
}

// Joined, and the range forgotten, when it goes.
class Fabric::SharedRegion final : public Shared {
 public:
  SharedRegion(Fabric* fabric, std::string what, std::shared_ptr<MappedRegion> region,
               Result<std::shared_ptr<const void>> may)
      : fabric_(fabric), what_(std::move(what)), region_(std::move(region)) {
    Result<std::thread> thread = may.ok() ? StartThread([this, held = *may] { Register(); })
                                          : Result<std::thread>(may.status());
    if (thread.ok()) {
      thread_ = std::move(*thread);
    } else if (!IsShort()) {
      SayOverTcp(thread.status());
    }
  }
  ~SharedRegion() override {
    if (thread_.joinable()) thread_.join();
    if (id_ != 0) fabric_->registered_.Remove(id_);
  }
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  bool registered() const override {
    std::lock_guard lock(mutex_);
    return id_ != 0 && fabric_->registered_.Known(id_);
  }
  void AwaitIfShort() const override {
    if (!IsShort()) return;
    if (!thread_.joinable()) return Register();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tried_; });
  }

 private:
  bool IsShort() const { return region_->bytes().size() <= kShortBytes; }
  void SayOverTcp(const Status& why) const {
    spdlog::warn("pages of {} are read over TCP: {}", what_, why.ToString());
  }
  void Register() const {
    const auto id = fabric_->registered_.Register(what_, region_->bytes(), *fabric_->rails_,
                                                  rdma::Registration::For::kLocalWrite, region_);
    if (!id.ok()) SayOverTcp(id.status());
    std::lock_guard lock(mutex_);
    if (id.ok()) id_ = *id;
    tried_ = true;
    changed_.notify_all();
  }

  Fabric* const fabric_;
  const std::string what_;
  const std::shared_ptr<MappedRegion> region_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable uint64_t id_ = 0;  // 0: it is not registered
  mutable bool tried_ = false;
  std::thread thread_;  // none: there was no more to be had
};

std::shared_ptr<const Fabric::Shared> Fabric::Share(const std::string& what,
                                                    std::shared_ptr<MappedRegion> memory,
                                                    Result<std::shared_ptr<const void>> thread) {
  return std::make_shared<SharedRegion>(this, what, std::move(memory), std::move(thread));
}

class Fabric::SharedDevice final : public Shared {
 public:
  SharedDevice(Fabric* fabric, uint64_t id) : fabric_(fabric), id_(id) {}
  ~SharedDevice() override { fabric_->registered_.Remove(id_); }
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;
  bool registered() const override { return fabric_->registered_.Known(id_); }
  void AwaitIfShort() const override {}

 private:
  Fabric* const fabric_;
  const uint64_t id_;
};

// At once: the device has the memory already, and nothing is to be brought in or locked.
Result<std::shared_ptr<const Fabric::Shared>> Fabric::ShareDevice(
    const std::string& what, Bytes bytes, rdma::Registration::DmaBuf dma_buf,
    std::shared_ptr<const void> keeper) {
  dma_buf.device = true;
  const auto id = registered_.Register(what, bytes, *rails_, rdma::Registration::For::kLocalWrite,
                                       std::move(keeper), dma_buf);
  if (!id.ok()) return id.status();
  return std::shared_ptr<const Shared>(std::make_shared<SharedDevice>(this, *id));
}

std::vector<size_t> Fabric::Read(const ReadBatch& batch, std::vector<size_t> asked) {
  const Destinations& to = batch.to;
  const TimePoint now = Clock::now();
  std::vector<size_t> rest;
  std::vector<Work> works;
  NodeGroups groups;
  for (const size_t i : asked) groups.Add(batch.pages[i].record.node, i);
  groups.ForEach([&](uint64_t node, std::span<const NodeGroups::Item> items) {
    Work work;
    const PeerRef peer = peers_->Find(node);
    if (peer != nullptr) {
      work.link = links_->Take(peer, now);
    } else if (to.unmapped && node == peers_->self()) {
      work.link = TakeOwn(std::min(batch.deadline, now + stall_ / kOwnLinkShare));
    }
    const TimePoint taken = Clock::now();
    uint64_t bytes = 0;
    for (const auto& item : items) {
      const RemotePage& page = batch.pages[item.index];
      const bool fits = work.link && work.link->incarnation == page.record.incarnation &&
                        page.until > taken + kLeastLease;
      (fits ? work.rest : rest).push_back(item.index);
      if (fits) bytes += page.record.length;
    }
    if (work.link && work.rest.empty()) Return(std::move(work.link));
    if (!work.link) return;
    if (peer != nullptr) {
      work.queued = peer->under_way();
      work.reading = peer->Reading(bytes);
      work.holder = peer;
    }
    works.push_back(std::move(work));
  });
  // Of all READs together: NICs write until they have completed, whatever this process does. Not of
  // the making of links, which nobody should wait for.
  const Permit::Use use(to.permit);
  if (!use) {
    for (Work& work : works) Return(std::move(work.link));
    return {};
  }
  const TimePoint last_post = std::min(batch.deadline, Clock::now() + stall_);
  while (!works.empty()) {
    const bool late = Clock::now() >= last_post;
    // Giving up what is under way would cost the queues, and it is little.
    const TimePoint give_up =
        batch.hurried ? std::max(batch.deadline, last_post + stall_) : batch.deadline;
    if (!late) Round(works, batch, {give_up, spin_, last_post}, &rest);
    for (Work& work : works) {
      if (late) work.GiveBack(&rest);
      if (work.next == work.rest.size()) Return(std::move(work.link));
    }
    std::erase_if(works, [](const Work& work) { return work.link == nullptr; });
  }
  return rest;
}

std::unique_ptr<Link> Fabric::TakeOwn(TimePoint deadline) {
  std::vector<std::unique_ptr<Link>> useless;  // goes without the lock
  {
    std::lock_guard lock(own_mutex_);
    while (!own_.empty()) {
      auto link = std::move(own_.back());
      own_.pop_back();
      const bool told_present_keys = link->made >= keys_->since();
      if (told_present_keys && link->channel->queues() > 0 && link->channel->lost_rails() == 0)
        return link;
      useless.push_back(std::move(link));
    }
  }
  const TimePoint now = Clock::now();
  if (!own_health_.Allows(now)) return nullptr;
  auto link = OpenOwn(deadline);
  if (link.ok()) {
    own_health_.Succeeded();
    return std::move(*link);
  }
  if (own_health_.state(now) == PeerHealth::State::kClosed)
    spdlog::warn("device memory gets no pages of this node's own pool: {}",
                 link.status().ToString());
  own_health_.Failed(Clock::now());
  return nullptr;
}

Result<std::unique_ptr<Link>> Fabric::OpenOwn(TimePoint deadline) {
  auto channel = rdma::ReadChannel::Make(*rails_, ~0u);
  if (!channel.ok()) return channel.status();
  auto link = std::make_unique<Link>();
  link->made = Clock::now();
  link->incarnation = peers_->incarnation();
  link->channel = std::move(*channel);
  ConnectOk answer;
  do {
    auto queues = acceptor_->Accept(link->channel->request(), &answer);
    if (!queues.ok()) return queues.status();
    link->own = std::move(*queues);
    if (answer.later) std::this_thread::sleep_for(milliseconds(1));
  } while (answer.later && Clock::now() < deadline);
  if (answer.later) return DeadlineExceeded("the rails have not connected to themselves");
  if (Status s = link->channel->Establish(answer, deadline); !s.ok()) return s;
  return link;
}

void Fabric::Return(std::unique_ptr<Link> link) {
  if (link->peer != nullptr) return links_->Return(std::move(link));
  std::vector<std::unique_ptr<Link>> useless;  // goes without the lock
  std::lock_guard lock(own_mutex_);
  const TimePoint now = link->returned = Clock::now();
  own_.push_back(std::move(link));
  while (own_.size() > kIdleOwn || now - own_.front()->returned > kOwnIdles) {
    useless.push_back(std::move(own_.front()));
    own_.erase(own_.begin());
  }
}

void Fabric::Round(std::span<Work> works, const ReadBatch& batch, const rdma::ReadLimits& limits,
                   std::vector<size_t>* rest) {
  std::vector<rdma::RunningRead> running;
  for (Work& work : works) {
    work.count = 0;
    auto block = headers_->Take();
    if (!block.ok()) {
      spdlog::error("{}", block.status().ToString());
      work.GiveBack(rest);
      continue;
    }
    work.block = *block;
    work.count = std::min(work.rest.size() - work.next, HeaderMemory::kPages);
    work.reads.clear();
    for (size_t i = 0; i < work.count; ++i) {
      const RemotePage& page = batch.pages[work.rest[work.next + i]];
      const Record& r = page.record;
      work.reads.push_back({page.key, r.offset, r.generation, r.length, batch.to.Of(page.page)});
    }
    work.states.assign(work.count, rdma::PageState::kPending);
    const Channel* const control = work.link->control.get();
    running.push_back({work.link->channel.get(), control != nullptr ? control->fd() : -1});
  }
  const auto ranges = registered_.ranges();
  // What no engine waits for has little under way: looking at a page would leave the rails idle.
  EarlyChecks checks(batch.background ? nullptr : batch.checks);
  const TimePoint now = Clock::now();
  for (Work& work : works) {
    for (size_t i = 0; i < work.count; ++i)
      checks.Add(work.rest[work.next + i], work.reads[i].length, &work.states[i]);
    if (work.count == 0) continue;
    work.link->channel->Begin(work.reads, *ranges, work.block.headers.first(2 * work.count),
                              work.states, queue_stall_, now, batch.background);
  }
  rdma::ReadLimits limited = limits;
  limited.meanwhile = [&checks] { return checks.CheckOne(); };
  rdma::RunReads(running, limited);
  for (Work& work : works) {
    if (work.count == 0) continue;
    headers_->Return(work.block);
    const TimePoint finished = work.link->channel->finished();
    uint64_t read = 0;
    for (size_t i = 0; i < work.count; ++i) {
      const size_t index = work.rest[work.next + i];
      switch (work.states[i]) {
        case rdma::PageState::kRead:
          read += batch.pages[index].record.length;
          // Nobody guards the slot after the lease, so bytes that came later may be another page's.
          // model: check_lease, time_last
          if (finished < batch.pages[index].until) {
            batch.outcomes[index] = ReadOutcome::kReadByRdma;
          } else {
            rest->push_back(index);
          }
          break;
        case rdma::PageState::kStale: batch.outcomes[index] = ReadOutcome::kStale; break;
        default: rest->push_back(index); break;
      }
    }
    work.next += work.count;
    if (work.holder != nullptr && !batch.background)
      work.holder->cost(Tier::kMemory).Took(read, work.queued, finished - now);
  }
}

FabricStats Fabric::stats() const {
  FabricStats stats;
  for (const auto& rail : rails_->all()) {
    const rdma::RailAddress address = rail->state().address();
    stats.rails.push_back(
        {rail->name(), rail->up(),
         address.epoch == 0 ? std::string() : rdma::FormatAddress(address.gid.address),
         rail->state().waits(), rail->spec().numa_node, rail->memory(), rail->ordering(),
         rail->stats()});
  }
  if (links_) stats.links = links_->stats();
  stats.acceptor = acceptor_->stats();
  stats.classes = rails_->classes().stats();
  return stats;
}

}  // namespace peercache
