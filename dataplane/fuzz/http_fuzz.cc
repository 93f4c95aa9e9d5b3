// The HTTP port: what anybody can send to it, on one connection.
//
// The input is sent as it is; the server must close within its patience, answer with HTTP if at
// all, and serve somebody else afterwards. The parser is libmicrohttpd's, which is not instrumented
// here: this target lives from its seeds, and from what they are mutated to.

#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "fuzz.h"
#include "node/report/http.h"
#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

Reached served("requests served"), refused("requests refused"), oversized("requests too long"),
    unknown("paths unknown"), foreign("methods not allowed"),
    silent("connections closed without an answer");

// More than the server waits for the rest of a request.
constexpr std::chrono::seconds kPatience{20};
constexpr std::chrono::milliseconds kHalfRequest{20};
// One answer, whatever is asked for. A file of the dashboard is the largest.
constexpr size_t kMaxAnswer = 16 << 10;

std::unique_ptr<Http> Serve() {
  HttpHandlers handlers;
  handlers.healthy = [] { return Status(); };
  handlers.ready = [] { return Unavailable("not yet"); };
  handlers.metrics = [] { return std::string(2000, 'm'); };
  handlers.status = [](Asker) { return std::string("{}\n"); };
  auto http = Http::Bind("127.0.0.1", 0, std::move(handlers));
  Require(http.ok(), "the port is there");
  Require((*http)->Serve().ok(), "the server starts");
  return std::move(*http);
}

std::string Ask(uint16_t port, ConstBytes request, bool complete) {
  auto fd = StartConnect("127.0.0.1", port);
  Require(fd.ok(), "the port can be reached");
  const TimePoint deadline = Clock::now() + kPatience;
  Require(*WaitFor(fd->get(), POLLOUT, deadline), "and accepts");
  // Inputs fit what a socket buffers. A server that has closed already may still have answered.
  (void)!send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (!complete) {
    // It drops requests of those who listen no more, and waits for the rest of half ones.
    (void)WaitFor(fd->get(), POLLIN, Clock::now() + kHalfRequest);
    shutdown(fd->get(), SHUT_WR);
  }
  std::string answer;
  for (;;) {
    Require(*WaitFor(fd->get(), POLLIN, deadline), "the server closes");
    char part[4096];
    const ssize_t n = recv(fd->get(), part, sizeof(part), 0);
    if (n <= 0) break;
    answer.append(part, static_cast<size_t>(n));
    Require(answer.size() < kMaxAnswer, "answers do not multiply");
  }
  return answer;
}

void Judge(const std::string& answer) {
  if (answer.empty()) {
    silent.Hit();
    return;
  }
  Require(answer.starts_with("HTTP/1."), "an answer is HTTP");
  const std::string status = answer.substr(9, 3);
  if (status == "200") served.Hit();
  if (status == "400") refused.Hit();
  if (status == "414" || status == "431") oversized.Hit();
  if (status == "404") unknown.Hit();
  if (status == "405") foreign.Hit();
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  static auto* const http = Serve().release();  // its threads run until the process ends
  Judge(Ask(http->port(), AsBytes({data, size}), false));
  // HTTP/1.1 demands a host, and libmicrohttpd 1.0 insists.
  constexpr std::string_view kProbe =
      "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  const std::string answer = Ask(http->port(), std::as_bytes(std::span(kProbe)), true);
  Require(answer.find(" 200 ") != std::string::npos && answer.ends_with("ok\n"),
          "others are served");
  return 0;
}
