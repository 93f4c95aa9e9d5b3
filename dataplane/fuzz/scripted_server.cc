#include "scripted_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

constexpr milliseconds kSilence{100};

}  // namespace

ScriptedServer::ScriptedServer(UniqueFd listener, Afterwards afterwards)
    : listener_(std::move(listener)), afterwards_(afterwards), thread_([this] { Run(); }) {}

void ScriptedServer::Answer(std::vector<Blob> connections) {
  std::lock_guard lock(mutex_);
  connections_ = std::move(connections);
  next_ = 0;
}

Blob ScriptedServer::Next() {
  std::lock_guard lock(mutex_);
  return next_ < connections_.size() ? connections_[next_++] : Blob();
}

void ScriptedServer::Run() {
  // Clients keep connections while they make others.
  struct Open {
    UniqueFd fd;
    TimePoint until;  // of its silence
  };
  std::vector<Open> open;
  std::vector<pollfd> entries;
  for (;;) {
    entries.assign(1, {listener_.get(), POLLIN, 0});
    for (const Open& o : open) entries.push_back({o.fd.get(), POLLIN, 0});
    (void)poll(entries.data(), entries.size(), open.empty() ? -1 : 20);
    const TimePoint now = Clock::now();
    char sink[4096];
    for (size_t i = 0; i < open.size(); ++i) {
      const bool heard = entries[i + 1].revents != 0;
      if (heard) open[i].until = now + kSilence;
      const bool ended = heard && recv(open[i].fd.get(), sink, sizeof(sink), MSG_DONTWAIT) <= 0;
      if (ended || now > open[i].until) open[i].fd.Reset();
    }
    std::erase_if(open, [](const Open& o) { return !o.fd; });
    if (entries[0].revents == 0) continue;
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) continue;
    const Blob bytes = Next();
    const timeval patience{0, 100'000};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (afterwards_ == Afterwards::kHalfClose) shutdown(fd.get(), SHUT_WR);
    open.push_back({std::move(fd), now + kSilence});
  }
}

}  // namespace peercache::fuzz
