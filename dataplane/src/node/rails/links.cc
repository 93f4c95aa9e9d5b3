#include "node/rails/links.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

namespace peercache {
namespace {

// A link without all the rails that could serve it gives way to a new one after this, once there
// is one.
constexpr Duration kIncompleteLife = std::chrono::seconds(2);
constexpr Duration kSweepEvery = std::chrono::seconds(5);
// Of the time that a peer may take to answer, what trying its rails may take.
constexpr int kProbeShare = 2;
// A link to a peer that is well is made in a few milliseconds. For longer a call does not wait: TCP
// brings its pages meanwhile.
constexpr Duration kWaitForLink = milliseconds(20);
// What one of our rails may take to connect, the peer's address being looked up; the others are not
// held up for longer. The peer does the same for its own, and says what it has soon after.
constexpr Duration kRailConnects = milliseconds(300);
constexpr Duration kPeerConnects = std::chrono::seconds(2);
// Between asking a peer that connects and asking again.
constexpr Duration kFirstPause = milliseconds(1), kLongestPause = milliseconds(20);

bool Closed(const Channel& connection) {
  char byte;
  const ssize_t n = recv(connection.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

Links::Links(LinkOptions options, const rdma::Rails* rails, const Peers* peers,
             HeaderMemory* headers, const rdma::RegisteredMemory* registered)
    : options_(options),
      rails_(rails),
      peers_(peers),
      headers_(headers),
      registered_(registered),
      sweeper_([this] { SweepIdle(); }) {
  for (std::thread& opener : openers_) opener = std::thread([this] { OpenAsked(); });
}

Links::~Links() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  asked_.notify_all();
  for (std::thread& opener : openers_) opener.join();
  sweeper_.join();
}

std::shared_ptr<Links::Known> Links::Of(const PeerRef& peer) {
  auto& known = known_[peer->node()];
  if (!known) known = std::make_shared<Known>(peer);
  return known;
}

uint32_t Links::Candidates(const Known& known, TimePoint now) const {
  uint32_t rails = 0;
  for (size_t i = 0; i < rails_->size(); ++i)
    if ((*rails_)[i].up() && known.rails[i].Allows(now)) rails |= 1u << i;
  return rails;
}

bool Links::Outdated(const Known& known, const Link& link, TimePoint now) const {
  if (!peers_->Current(*link.control)) return true;  // the peer will end it soon
  return now - link.made > kIncompleteLife &&
         (Candidates(known, now) & ~link.channel->whole_rails()) != 0;
}

std::unique_ptr<Link> Links::TakeIdle(Known* known, TimePoint now,
                                      std::vector<std::unique_ptr<Link>>* useless) {
  auto& idle = known->idle;
  const auto drop = [&](std::unique_ptr<Link> link) {
    useless->push_back(std::move(link));
    Count(-1);
  };
  while (!idle.empty()) {
    const size_t take =
        PlaceToTake(idle.size(), [&](size_t i) { return Outdated(*known, *idle[i], now); });
    const bool replaces = take + 1 < idle.size();
    auto link = std::move(idle[take]);
    idle.erase(idle.begin() + static_cast<ptrdiff_t>(take));
    if (Closed(*link->control)) {
      drop(std::move(link));
      continue;
    }
    // Each that has all rails takes the place of one that lacks some: the last one, as it was.
    if (replaces) {
      drop(std::move(idle.back()));
      idle.pop_back();
    }
    return link;
  }
  return nullptr;
}

std::unique_ptr<Link> Links::Take(const PeerRef& peer, TimePoint now) {
  const TimePoint until = now + kWaitForLink;
  std::vector<std::unique_ptr<Link>> useless;  // goes without the lock
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Known> known = Of(peer);
  for (;;) {
    if (auto link = TakeIdle(known.get(), now, &useless)) {
      if (Outdated(*known, *link, now)) AskFor(known, false, now, &useless);
      return link;
    }
    // A link that takes long to make holds up the calls of its first moments only.
    if (!AskFor(known, true, now, &useless)) return nullptr;
    const TimePoint patience = std::min(until, known->asked + kWaitForLink);
    if (opened_.wait_until(lock, patience) == std::cv_status::timeout) return nullptr;
    now = Clock::now();
  }
}

std::unique_ptr<Link> Links::TakeLongestIdle() {
  std::vector<std::unique_ptr<Link>>* of = nullptr;
  for (auto& entry : known_) {
    auto& idle = entry.second->idle;
    // The first of each peer's is the one that was returned first.
    if (!idle.empty() && (of == nullptr || idle.front()->returned < of->front()->returned))
      of = &idle;
  }
  if (of == nullptr) return nullptr;
  auto link = std::move(of->front());
  of->erase(of->begin());
  Count(-1);
  return link;
}

bool Links::AskFor(const std::shared_ptr<Known>& known, bool urgent, TimePoint now,
                   std::vector<std::unique_ptr<Link>>* useless) {
  if (known->opening) return true;
  if (!known->health.Allows(now) || !known->peer->health().Allows(now) || !rails_->any_up())
    return false;
  while (stats_.queues + rails_->queues() > options_.max_queues) {
    auto longest_idle = TakeLongestIdle();
    if (longest_idle == nullptr) {
      ++stats_.refused;
      return false;
    }
    useless->push_back(std::move(longest_idle));
  }
  Count(1);
  known->opening = true;
  known->asked = now;
  if (urgent) {
    to_open_.push_front(known);
  } else {
    to_open_.push_back(known);
  }
  asked_.notify_one();
  return true;
}

void Links::OpenAsked() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return stop_ || !to_open_.empty(); });
    if (stop_) return;
    const std::shared_ptr<Known> known = std::move(to_open_.front());
    to_open_.pop_front();
    lock.unlock();
    auto link = Open(known.get());
    const TimePoint now = Clock::now();
    lock.lock();
    known->opening = false;
    if (link.ok()) {
      ++stats_.made;
      known->health.Succeeded();
      (*link)->returned = now;
      known->idle.push_back(std::move(*link));
    } else {
      Count(-1);
      ++stats_.failed;
      if (known->health.state(now) == PeerHealth::State::kClosed) {
        spdlog::warn("node {:016x} is read over TCP, RDMA does not reach it: {}",
                     known->peer->node(), link.status().ToString());
      }
      known->health.Failed(now);
    }
    opened_.notify_all();
  }
}

void Links::Count(int64_t links) {
  stats_.links += static_cast<uint64_t>(links);
  stats_.queues = stats_.links * rails_->queues();
}

Result<ConnectOk> Links::Ask(Link* link) const {
  FrameWriter frame;
  frame.Start(MessageType::kConnect, 1);
  link->channel->request().Encode(&frame);
  frame.Finish();
  Channel* const control = link->control.get();
  const TimePoint limit = Clock::now() + kPeerConnects;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const TimePoint now = Clock::now();
    control->Begin(frame.bytes(), nullptr, now);
    RunAll(std::span(&control, 1), {options_.connect, now + options_.connect});
    if (!control->status().ok()) return control->status();
    ConnectOk answer;
    FrameReader body = control->body();
    const bool good = control->answer().type == MessageType::kConnectOk && answer.Decode(&body);
    control->Rest();
    if (!good) return Corrupt("malformed ConnectOk");
    if (!answer.later) return answer;
    if (Clock::now() >= limit) return DeadlineExceeded("the peer has not connected its rails");
    std::this_thread::sleep_for(pause);
  }
}

Result<std::unique_ptr<Link>> Links::Open(Known* known) {
  const uint32_t candidates = Candidates(*known, Clock::now());
  auto channel = rdma::ReadChannel::Make(*rails_, candidates);
  if (!channel.ok()) return channel.status();
  auto link = std::make_unique<Link>();
  link->peer = known->peer;
  link->channel = std::move(*channel);
  link->control = peers_->NewChannel(known->peer->node(), known->peer->address());
  const auto answer = Ask(link.get());
  if (!answer.ok()) return answer.status();
  link->incarnation = link->control->peer_incarnation();
  Status s = link->channel->Establish(*answer, Clock::now() + kRailConnects);
  if (s.ok()) {
    auto block = headers_->Take();
    if (!block.ok()) return block.status();
    s = link->channel->Probe(std::as_writable_bytes(block->headers), *registered_->ranges(),
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
  const std::shared_ptr<Known> known = Of(link->peer);
  for (size_t i = 0; i < rails_->size(); ++i)
    if ((lost >> i & 1) != 0) known->rails[i].Failed(now);
  link->blamed |= lost;
  link->returned = now;
  if (link->channel->queues() > 0) {
    known->idle.push_back(std::move(link));
    opened_.notify_all();
    return;
  }
  Count(-1);
}

bool Links::Reaches(uint64_t node, TimePoint now) const {
  if (!rails_->any_up()) return false;
  std::lock_guard lock(mutex_);
  const auto known = known_.find(node);
  return known == known_.end() || known->second->health.state(now) == PeerHealth::State::kClosed;
}

LinkStats Links::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Links::SweepIdle() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    stopping_.wait_for(lock, std::min(kSweepEvery, options_.idle));
    const TimePoint now = Clock::now();
    std::vector<std::unique_ptr<Link>> old;
    for (auto& entry : known_) {
      Known* const known = entry.second.get();
      std::erase_if(known->idle, [&](std::unique_ptr<Link>& link) {
        if (now - link->returned < options_.idle && !Closed(*link->control)) return false;
        old.push_back(std::move(link));
        return true;
      });
    }
    Count(-static_cast<int64_t>(old.size()));
    std::erase_if(known_, [](const auto& entry) {
      const Known& known = *entry.second;
      return known.idle.empty() && !known.opening && !known.peer->in_view();
    });
    // Destroying queue pairs takes system calls.
    lock.unlock();
    old.clear();
    lock.lock();
  }
}

}  // namespace peercache
