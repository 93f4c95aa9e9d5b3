#include "node/report/asker.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(Asker, IsHereWhereTheHostIsAnAddressAndNobodyForwards) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:31997", "10.0.0.7:31997", "localhost",
                           "localhost:8080", "[::1]:31997", "[fe80::1]", "::1"})
    EXPECT_TRUE(AskedDirectly(host, false)) << host;
  EXPECT_TRUE(AskedDirectly(nullptr, false)) << "HTTP/1.0";
}

TEST(Asker, IsNotHereByANameThatSomebodyMadeLeadHere) {
  for (const char* host : {"attacker.example", "attacker.example:31997", "localhost.example",
                           "127.0.0.1.example", "", ":31997", "[::1", "[attacker.example]:31997"})
    EXPECT_FALSE(AskedDirectly(host, false)) << host;
}

TEST(Asker, AProxyIsKnownByItsHeaders) {
  for (const char* header : {"Forwarded", "X-Forwarded-For", "x-forwarded-proto", "Via",
                             "X-Real-IP", "X-Envoy-Attempt-Count", "l5d-client-id"})
    EXPECT_TRUE(IsOfProxies(header)) << header;
  for (const char* header : {"Host", "User-Agent", "Accept", "Traceparent", "X-Forwarded", ""})
    EXPECT_FALSE(IsOfProxies(header)) << header;
}

TEST(Asker, IsNotHereThroughAProxy) { EXPECT_FALSE(AskedDirectly("127.0.0.1", true)); }

}  // namespace
}  // namespace peercache
