#include "node/mapped/pool_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// How soon it is noticed that a secret has ended.
constexpr milliseconds kLookEvery{1000};
// A machine has a node or two for each NUMA node.
constexpr size_t kMostReaders = 64;

}  // namespace

bool PoolConnectionEnded(int fd) {
  std::byte byte;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

std::string PoolSocket(const std::string& directory, uint64_t node) {
  return fmt::format("{}/.pool-{:016x}", directory, node);
}

PoolServer::PoolServer(const std::string& directory, Hello self, const Secret* secret,
                       UniqueFd pool)
    : path_(PoolSocket(directory, self.node)),
      self_(std::move(self)),
      secret_(secret),
      pool_(std::move(pool)),
      thread_([this] { Run(); }) {}

PoolServer::~PoolServer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    // While it listens the file is its own: whoever waits for the socket makes another one after.
    if (listener_) {
      unlink(path_.c_str());
      shutdown(listener_.get(), SHUT_RDWR);
    }
  }
  wake_.notify_all();
  thread_.join();
}

bool PoolServer::Listen() {
  std::unique_lock lock(mutex_);
  for (bool said = false; !stop_; said = true) {
    auto listener = ListenUnix(path_, 0600);
    if (listener.ok()) {
      listener_ = std::move(*listener);
      return true;
    }
    if (!said) {
      spdlog::warn(
          "nodes of this machine read this node's pages as others do (map-pools): {}; "
          "trying again",
          listener.status().message());
    }
    wake_.wait_for(lock, kLookEvery, [this] { return stop_; });
  }
  return false;
}

void PoolServer::Run() {
  if (!Listen()) return;
  for (;;) {
    (void)WaitFor(listener_.get(), POLLIN, Clock::now() + kLookEvery);
    if (std::lock_guard lock(mutex_); stop_) return;
    DropEnded();
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd || readers_.size() >= kMostReaders) continue;
    uint64_t key = 0;
    if (Status s = Greet(fd.get(), &key); s.ok()) {
      readers_.push_back({std::move(fd), key});
    } else {
      spdlog::debug("a reader of the pool is refused: {}", s.ToString());
    }
  }
}

Status PoolServer::Greet(int fd, uint64_t* key) const {
  const TimePoint deadline = Clock::now() + kPoolGreeting;  // others wait meanwhile
  ReceivedFrame frame;
  FrameWriter answer;
  Hello hello;
  if (Status s = ReceiveFrame(fd, deadline, &frame, kMaxPoolGreetingBody); !s.ok()) return s;
  FrameReader body(frame.body);
  if (frame.header.type != MessageType::kHello || !hello.Decode(&body))
    return Corrupt("malformed Hello");
  hello.machine = frame.header.number;
  if (hello.cluster != self_.cluster || hello.to != path_)
    return {Code::kUnauthenticated, "the caller expects another node"};
  const auto known = secret_->none() ? std::nullopt : secret_->Find(hello.key, Clock::now());
  if (secret_->none() != (hello.key == 0) || secret_->none() == known.has_value())
    return {Code::kUnauthenticated, "the caller has another secret"};
  if (known) {
    const auto asked = Ask(*known, hello, {self_.node, self_.incarnation, self_.machine, {}, {}});
    if (!asked.ok()) return asked.status();
    answer.Start(MessageType::kChallenge, frame.header.request_id);
    asked->challenge.Encode(&answer);
    if (Status s = SendFrame(fd, answer.Finish(), -1, deadline); !s.ok()) return s;
    if (Status s = ReceiveFrame(fd, deadline, &frame, kMaxPoolGreetingBody); !s.ok()) return s;
    FrameReader proof(frame.body);
    ProveMessage prove;
    if (frame.header.type != MessageType::kProve || !prove.Decode(&proof) ||
        !Same(prove.proof, asked->expected))
      return {Code::kUnauthenticated, "the caller does not have the cluster's secret"};
    *key = known->id;
  }
  answer.Start(known ? MessageType::kProveOk : MessageType::kHelloOk, frame.header.request_id);
  if (!known) {
    HelloOk{self_.node, self_.incarnation, self_.machine}.Encode(&answer);
  }
  return SendFrame(fd, answer.Finish(), pool_.get(), deadline);
}

void PoolServer::DropEnded() {
  const TimePoint now = Clock::now();
  readers_.remove_if([&](const Reader& reader) {
    return PoolConnectionEnded(reader.fd.get()) ||
           (reader.key != 0 && !secret_->Find(reader.key, now));
  });
}

}  // namespace peercache
