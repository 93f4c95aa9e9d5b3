#include "node/links.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>

namespace peercache {
namespace {

// A call has at most one link to a peer; more than this are not kept.
constexpr size_t kIdleOfPeer = 8;
// A link without all the rails that could serve it gives way to a new one after this.
constexpr Duration kIncompleteLife = std::chrono::seconds(2);
constexpr Duration kSweepEvery = std::chrono::seconds(5);
// Of the time for setting up a link, what trying its rails may take.
constexpr int kProbeShare = 2;

bool Closed(const Channel& connection) {
  char byte;
  const ssize_t n = recv(connection.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

Links::Links(LinkOptions options, const rdma::Rails* rails, const Peers* peers,
             HeaderMemory* headers)
    : options_(options), rails_(rails), peers_(peers), headers_(headers), sweeper_([this] {
        SweepIdle();
      }) {}

Links::~Links() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  sweeper_.join();
}

Links::Known* Links::Of(uint64_t node) {
  auto& known = known_[node];
  if (!known) known = std::make_unique<Known>();
  return known.get();
}

uint32_t Links::Candidates(const Known& known, TimePoint now) const {
  uint32_t rails = 0;
  for (size_t i = 0; i < rails_->size(); ++i)
    if ((*rails_)[i].up() && known.rails[i].Allows(now)) rails |= 1u << i;
  return rails;
}

bool Links::Usable(const Known& known, const Link& link, TimePoint now) const {
  const bool incomplete = (Candidates(known, now) & ~link.channel->working_rails()) != 0;
  return !(incomplete && now - link.made > kIncompleteLife) && !Closed(*link.control);
}

std::unique_ptr<Link> Links::Take(Peer* peer, TimePoint now) {
  Known* known = nullptr;
  std::vector<std::unique_ptr<Link>> useless;
  {
    std::lock_guard lock(mutex_);
    known = Of(peer->node());
    std::unique_ptr<Link> link;
    while (!link && !known->idle.empty()) {
      auto last = std::move(known->idle.back());
      known->idle.pop_back();
      (Usable(*known, *last, now) ? link : useless.emplace_back()) = std::move(last);
    }
    Count(-static_cast<int64_t>(useless.size()));
    if (link) return link;
    if (!known->health.Allows(now) || !peer->health().Allows(now) || !rails_->any_up())
      return nullptr;
    if (stats_.queues + rails_->size() > options_.max_queues) {
      ++stats_.refused;
      return nullptr;
    }
    Count(1);
  }
  auto link = Open(peer, known, now);
  std::lock_guard lock(mutex_);
  if (link.ok()) {
    ++stats_.made;
    known->health.Succeeded();
    return std::move(*link);
  }
  Count(-1);
  ++stats_.failed;
  if (known->health.state(now) == PeerHealth::State::kClosed) {
    spdlog::warn("node {:016x} is read over TCP, RDMA does not reach it: {}", peer->node(),
                 link.status().ToString());
  }
  known->health.Failed(Clock::now());
  return nullptr;
}

void Links::Count(int64_t links) {
  stats_.links += static_cast<uint64_t>(links);
  stats_.queues = stats_.links * rails_->size();
}

Result<std::unique_ptr<Link>> Links::Open(Peer* peer, Known* known, TimePoint now) {
  const uint32_t candidates = Candidates(*known, now);
  auto channel = rdma::ReadChannel::Make(*rails_, candidates);
  if (!channel.ok()) return channel.status();
  auto link = std::make_unique<Link>();
  link->peer = peer;
  link->channel = std::move(*channel);
  link->control = peers_->NewChannel(peer->address());

  FrameWriter frame;
  frame.Start(MessageType::kConnect, 1);
  link->channel->request().Encode(&frame);
  frame.Finish();
  Channel* const control = link->control.get();
  control->Begin(frame.bytes(), nullptr, now);
  RunAll(std::span(&control, 1), {options_.connect, now + options_.connect});
  if (!control->status().ok()) return control->status();
  ConnectOk answer;
  FrameReader body = control->body();
  if (control->answer().type != MessageType::kConnectOk || !answer.Decode(&body))
    return Corrupt("malformed ConnectOk");
  link->incarnation = control->peer_incarnation();
  Status s = link->channel->Establish(answer);
  if (s.ok()) {
    auto block = headers_->Take();
    if (!block.ok()) return block.status();
    s = link->channel->Probe(std::as_writable_bytes(block->headers), *block->memory,
                             Clock::now() + options_.connect / kProbeShare);
    headers_->Return(*block);
  }
  const uint32_t works = link->channel->working_rails();
  link->made = Clock::now();
  for (size_t i = 0; i < rails_->size(); ++i) {
    if ((candidates >> i & 1) == 0) continue;
    if ((works >> i & 1) != 0) {
      known->rails[i].Succeeded();
    } else {
      known->rails[i].Failed(link->made);
    }
  }
  link->blamed = candidates & ~works;
  if (!s.ok()) return s;
  return link;
}

void Links::Return(std::unique_ptr<Link> link) {
  const TimePoint now = Clock::now();
  const uint32_t lost = link->channel->lost_rails() & ~link->blamed;
  std::lock_guard lock(mutex_);
  Known* known = Of(link->peer->node());
  for (size_t i = 0; i < rails_->size(); ++i)
    if ((lost >> i & 1) != 0) known->rails[i].Failed(now);
  link->blamed |= lost;
  link->returned = now;
  if (link->channel->queues() > 0 && known->idle.size() < kIdleOfPeer) {
    known->idle.push_back(std::move(link));
    return;
  }
  Count(-1);
}

LinkStats Links::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Links::SweepIdle() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    stopping_.wait_for(lock, kSweepEvery);
    const TimePoint now = Clock::now();
    std::vector<std::unique_ptr<Link>> old;
    for (auto& entry : known_) {
      Known* const known = entry.second.get();
      std::erase_if(known->idle, [&](std::unique_ptr<Link>& link) {
        if (now - link->returned < options_.idle && Usable(*known, *link, now)) return false;
        old.push_back(std::move(link));
        return true;
      });
    }
    Count(-static_cast<int64_t>(old.size()));
    // Destroying queue pairs takes system calls.
    lock.unlock();
    old.clear();
    lock.lock();
  }
}

}  // namespace peercache
