#include "node/http.h"

#include <gtest/gtest.h>
#include <httplib.h>

namespace peercache {
namespace {

TEST(HttpTest, AnswersDoNotMultiply) {
  HttpHandlers handlers;
  handlers.healthy = handlers.ready = [] { return Status(); };
  handlers.metrics = [] { return std::string(100'000, 'm'); };
  handlers.status = [] { return std::string("{}"); };
  auto http = Http::Bind("127.0.0.1", 0, std::move(handlers));
  ASSERT_TRUE(http.ok()) << http.status().ToString();
  (*http)->Serve();
  httplib::Client client("127.0.0.1", (*http)->port());
  const auto part = client.Get("/metrics", {{"Range", "bytes=0-9"}});
  ASSERT_TRUE(part);
  EXPECT_EQ(part->status, 206);
  EXPECT_EQ(part->body, std::string(10, 'm'));
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  const auto parts = client.Get("/metrics", {{"Range", ranges}});
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->status, 416);
  EXPECT_TRUE(parts->body.empty());
}

}  // namespace
}  // namespace peercache
