#include "node/report/http_get.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>

#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache {
namespace {

constexpr size_t kMost = 64 << 20;

// HTTP/1.1 200 OK, other headers, an empty line, the body.
Result<HttpAnswer> Parse(std::string text) {
  constexpr std::string_view kVersion = "HTTP/1.x ", kEnd = "\r\n\r\n";
  HttpAnswer answer;
  const size_t end = text.find(kEnd);
  const char* digits = text.data() + kVersion.size();
  if (end == std::string::npos || end < kVersion.size() || !text.starts_with("HTTP/1.") ||
      std::from_chars(digits, text.data() + end, answer.status).ec != std::errc())
    return Corrupt("the answer is not HTTP");
  answer.body = std::move(text.erase(0, end + kEnd.size()));
  return answer;
}

}  // namespace

Result<HttpAnswer> HttpGet(const std::string& address, uint16_t port, const std::string& path,
                           Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  auto fd = StartConnect(address, port);
  if (!fd.ok()) return fd.status();
  const auto await = [&](short events) -> Status {
    auto ready = WaitFor(fd->get(), events, deadline);
    if (!ready.ok()) return ready.status();
    return *ready ? Status() : DeadlineExceeded("no answer in time");
  };
  if (Status s = await(POLLOUT); !s.ok()) return s;
  // HTTP/1.0: the answer is not cut into chunks, and ends with the connection.
  const std::string request = fmt::format("GET {} HTTP/1.0\r\n\r\n", path);
  if (send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return Unavailable(FromErrno("asking", errno).message());
  std::string text;
  for (;;) {
    if (Status s = await(POLLIN); !s.ok()) return s;
    char part[16 << 10];
    const ssize_t n = recv(fd->get(), part, sizeof(part), 0);
    if (n == 0) return Parse(std::move(text));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unavailable(FromErrno("the answer broke off", errno).message());
    text.append(part, static_cast<size_t>(n));
    if (text.size() > kMost) return Corrupt("the answer has no end");
  }
}

}  // namespace peercache
