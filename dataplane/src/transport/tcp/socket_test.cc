#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "wire/stream.h"

namespace peercache {
namespace {

sockaddr_storage AddressOf(const char* text) {
  sockaddr_storage address{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text, &v6->sin6_addr), 1) << text;
    v6->sin6_family = AF_INET6;
  }
  return address;
}

bool Own(const char* peer, const char* local) {
  const sockaddr_storage from = AddressOf(peer), to = AddressOf(local);
  return FromOwnMachine(reinterpret_cast<const sockaddr*>(&from),
                        reinterpret_cast<const sockaddr*>(&to));
}

TEST(OwnMachineTest, IsToldByTheAddressOfTheOtherEnd) {
  EXPECT_TRUE(Own("127.0.0.1", "127.0.0.1"));
  EXPECT_TRUE(Own("127.9.9.9", "127.0.0.1"));
  EXPECT_TRUE(Own("::1", "::1"));
  EXPECT_TRUE(Own("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
  EXPECT_TRUE(Own("10.0.0.7", "10.0.0.7"));
  EXPECT_TRUE(Own("fd00::7", "fd00::7"));

  EXPECT_FALSE(Own("10.0.0.8", "10.0.0.7"));
  EXPECT_FALSE(Own("::ffff:10.0.0.8", "::ffff:10.0.0.7"));
  EXPECT_FALSE(Own("fd00::8", "fd00::7"));
  EXPECT_FALSE(Own("128.0.0.1", "10.0.0.7"));
}

TEST(OwnMachineTest, OfAnAcceptedConnection) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  auto caller = StartConnect("127.0.0.1", listener->port);
  ASSERT_TRUE(caller.ok());
  ASSERT_TRUE(WaitFor(listener->fd.get(), POLLIN, Clock::now() + std::chrono::seconds(10)).value());
  const UniqueFd accepted(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted);
  EXPECT_TRUE(FromOwnMachine(accepted.get()));
  EXPECT_FALSE(FromOwnMachine(-1));
}

}  // namespace
}  // namespace peercache
