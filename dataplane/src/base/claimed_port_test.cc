#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "base/claimed_port_testing.h"

namespace peercache::testing {
namespace {

TEST(ClaimPortTest, ProcessesNeverGetTheSame) {
  constexpr int kEach = 100;
  int ports[2];
  ASSERT_EQ(pipe(ports), 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kEach; ++i) {
      const uint16_t port = ClaimPort();
      if (write(ports[1], &port, sizeof port) != sizeof port) _exit(1);
    }
    for (;;) pause();  // has them as long as the other claims
  }
  std::set<uint16_t> seen;
  for (int i = 0; i < kEach; ++i) {
    EXPECT_TRUE(seen.insert(ClaimPort()).second);
    uint16_t other = 0;
    ASSERT_EQ(read(ports[0], &other, sizeof other), ssize_t{sizeof other});
    EXPECT_TRUE(seen.insert(other).second);
    EXPECT_FALSE(ClaimedPort(other).has_value());
  }
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(ClaimPortTest, APortInUseIsNotGiven) {
  // This server claims nothing.
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(server.get(), 1), 0);
  socklen_t size = sizeof at;
  ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  EXPECT_FALSE(ClaimedPort(ntohs(at.sin_port)).has_value());
}

TEST(ClaimPortTest, WhereNoneIsFreeItEnds) {
  const uint16_t port = ClaimPort();
  EXPECT_FALSE(ClaimPortOf(port, port + 1).has_value());
}

}  // namespace
}  // namespace peercache::testing
