// What the HTTP port answers. What it survives: http_flood_test.cc.
#include "node/report/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "node/report/http_get.h"
#include "node/report/web_files.h"
#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr seconds kLimit{10};

class HttpTest : public ::testing::Test {
 protected:
  HttpTest() {
    handlers_.healthy = [] { return Status(); };
    handlers_.ready = [] { return Unavailable("not yet"); };
    handlers_.metrics = [] { return std::string(100'000, 'm'); };
    handlers_.history = [] { return std::string("[]"); };
    handlers_.status = [](Asker asker) {
      return std::string(asker == Asker::kOwnMachine ? "{}" : "a stranger");
    };
  }
  void Serve() {
    auto http = Http::Bind("127.0.0.1", 0, handlers_);
    ASSERT_TRUE(http.ok()) << http.status().ToString();
    http_ = std::move(*http);
    ASSERT_TRUE(http_->Serve().ok());
  }
  HttpAnswer Get(const std::string& path) {
    auto answer = HttpGet("127.0.0.1", http_->port(), path, kLimit);
    EXPECT_TRUE(answer.ok()) << path << ": " << answer.status().ToString();
    return answer.ok() ? *answer : HttpAnswer();
  }
  // All that is answered to these bytes, until the end.
  std::string Say(const std::string& request) {
    auto fd = StartConnect("127.0.0.1", http_->port());
    if (!fd.ok()) return fd.status().ToString();
    const TimePoint deadline = Clock::now() + kLimit;
    (void)WaitFor(fd->get(), POLLOUT, deadline);
    EXPECT_EQ(send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    while (WaitFor(fd->get(), POLLIN, deadline).value()) {
      const ssize_t n = recv(fd->get(), part, sizeof(part), 0);
      if (n <= 0) return answer;
      answer.append(part, static_cast<size_t>(n));
    }
    ADD_FAILURE() << "it has no end";
    return answer;
  }
  HttpHandlers handlers_;
  std::unique_ptr<Http> http_;
};

TEST_F(HttpTest, EachPathHasItsAnswer) {
  Serve();
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/healthz?verbose=1").body, "ok\n");
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/readyz").body, "not yet\n");
  EXPECT_EQ(Get("/metrics").body, std::string(100'000, 'm'));
  EXPECT_EQ(Get("/v1/status").body, "{}");
  EXPECT_EQ(Get("/v1/history").body, "[]");
  EXPECT_THAT(Get("/").body, StartsWith("<!doctype html>"));
  for (const WebFile& file : WebFiles()) EXPECT_EQ(Get(std::string(file.path)).body, file.content);
  EXPECT_EQ(Get("/unknown").status, 404);
  EXPECT_THAT(Say("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(Say("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"),
              HasSubstr("Content-Type: application/json\r\n"));
}

TEST_F(HttpTest, BrowsersMayDoNothingButShowTheDashboard) {
  Serve();
  for (const char* path : {"/", "/app.js", "/v1/status", "/healthz", "/unknown"}) {
    const std::string answer = Say(std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'; ")) << path;
    EXPECT_THAT(answer, HasSubstr("frame-ancestors 'none'\r\n")) << path;
    EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff\r\n")) << path;
    EXPECT_THAT(answer, HasSubstr("Referrer-Policy: no-referrer\r\n")) << path;
    EXPECT_THAT(answer, Not(HasSubstr("Access-Control-Allow"))) << path;
  }
}

TEST_F(HttpTest, WhoAsksForAnotherIsAStranger) {
  Serve();
  const auto ask = [this](const std::string& headers) {
    return Say("GET /v1/status HTTP/1.1\r\n" + headers + "\r\n");
  };
  EXPECT_THAT(ask("Host: 127.0.0.1:31997\r\n"), EndsWith("{}"));
  EXPECT_THAT(ask("Host: localhost:31997\r\n"), EndsWith("{}"));
  EXPECT_THAT(ask("Host: attacker.example\r\n"), EndsWith("a stranger"));
  EXPECT_THAT(ask("Host: 127.0.0.1\r\nX-Forwarded-For: 10.0.0.9\r\n"), EndsWith("a stranger"));
  EXPECT_THAT(ask("Host: 127.0.0.1\r\nForwarded: for=10.0.0.9\r\n"), EndsWith("a stranger"));
  EXPECT_THAT(ask("Host: 127.0.0.1\r\nx-envoy-attempt-count: 1\r\n"), EndsWith("a stranger"));
  EXPECT_THAT(ask("Host: 127.0.0.1\r\nl5d-client-id: a\r\n"), EndsWith("a stranger"));
}

TEST_F(HttpTest, NothingButReading) {
  Serve();
  const std::string head = Say("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 100000\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  for (const char* request :
       {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nx"}) {
    const std::string answer = Say(request);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405")) << request;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n")) << request;
  }
}

TEST_F(HttpTest, AnswersDoNotMultiply) {
  Serve();
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  EXPECT_LT(Say("GET /metrics HTTP/1.1\r\nHost: x\r\nRange: " + ranges + "\r\n\r\n").size(),
            101'000u);
  std::string pipelined;
  for (int i = 0; i < 20; ++i) pipelined += "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_LT(Say(pipelined).size(), 101'000u);
}

TEST_F(HttpTest, LongLinesAreRefused) {
  Serve();
  const std::string text(1 << 14, 'a');
  EXPECT_THAT(Say("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Y: " + text + "\r\n\r\n"),
              Not(HasSubstr(" 200 ")));
  EXPECT_THAT(Say("GET /" + text + " HTTP/1.1\r\nHost: x\r\n\r\n"), Not(HasSubstr(" 200 ")));
}

TEST_F(HttpTest, ATakenPortIsAnErrorThatNamesTheOption) {
  Serve();
  const auto second = Http::Bind("127.0.0.1", http_->port(), handlers_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(),
              StartsWith("--http-port: cannot listen at 127.0.0.1:" +
                         std::to_string(http_->port()) + "; choose another port, or 0 for any"));
}

// Those who ask while a text is being made share the next.
TEST_F(HttpTest, WhoWaitsSharesATextThatIsNoOlderThanItsQuestion) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::atomic<int> made{0};
  handlers_.metrics = [&] {
    const int number = ++made;
    std::unique_lock lock(mutex);
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
    return std::to_string(number);
  };
  Serve();
  const auto ask = [this] { return Get("/metrics").body; };
  std::vector<std::future<std::string>> asked;
  asked.push_back(std::async(std::launch::async, ask));
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made == 1; });
  }
  for (int i = 0; i < 20; ++i) asked.push_back(std::async(std::launch::async, ask));
  while (http_->stats().connections < asked.size()) std::this_thread::yield();
  // The last of them have connected, and asked before this.
  EXPECT_EQ(Get("/healthz").status, 200);
  {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  EXPECT_EQ(asked.front().get(), "1");
  for (size_t i = 1; i < asked.size(); ++i) EXPECT_THAT(asked[i].get(), Not("1"));
  EXPECT_LE(made, 3);
}

TEST_F(HttpTest, EndsWhileSomebodyWaits) {
  std::atomic<bool> making{false};
  handlers_.status = [&](Asker) {
    making = true;
    std::this_thread::sleep_for(milliseconds(200));
    return std::string("{}");
  };
  Serve();
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 20; ++i) {
    auto fd = StartConnect("127.0.0.1", http_->port());
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(WaitFor(fd->get(), POLLOUT, Clock::now() + kLimit).value());
    const std::string request =
        std::string("GET ") + (i % 2 == 0 ? "/v1/status" : "/metrics") + " HTTP/1.0\r\n\r\n";
    ASSERT_GT(send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
    waiting.push_back(std::move(*fd));
  }
  while (!making) std::this_thread::yield();
  http_.reset();
  for (const UniqueFd& fd : waiting) {
    char part[4096];
    ASSERT_TRUE(WaitFor(fd.get(), POLLIN, Clock::now() + kLimit).value());
    while (recv(fd.get(), part, sizeof(part), 0) > 0) continue;
  }
}

}  // namespace
}  // namespace peercache
