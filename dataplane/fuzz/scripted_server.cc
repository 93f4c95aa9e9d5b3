#include "scripted_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "wire/stream.h"

namespace peercache::fuzz {

ScriptedServer::ScriptedServer(UniqueFd listener)
    : listener_(std::move(listener)), thread_([this] { Run(); }) {}

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
  for (;;) {
    (void)WaitFor(listener_.get(), POLLIN, std::nullopt);
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) continue;
    const Blob bytes = Next();
    // A client that keeps its connection must not keep this thread from the next one.
    timeval patience{0, 100'000};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(fd.get(), SHUT_WR);
    char sink[4096];
    while (recv(fd.get(), sink, sizeof(sink), 0) > 0) {
    }
  }
}

}  // namespace peercache::fuzz
