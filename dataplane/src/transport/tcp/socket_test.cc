#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "base/interface_address.h"
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
  EXPECT_TRUE(Own("::1", "::1"));
  EXPECT_TRUE(Own("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
  EXPECT_TRUE(Own("10.0.0.7", "10.0.0.7"));
  EXPECT_TRUE(Own("fd00::7", "fd00::7"));

  EXPECT_FALSE(Own("127.0.0.6", "127.0.0.1"));
  EXPECT_FALSE(Own("127.0.0.6", "10.0.0.7"));
  EXPECT_FALSE(Own("::ffff:127.0.0.6", "::ffff:10.0.0.7"));
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

TEST(ListenTest, AllAddressesAreOfBothFamilies) {
  auto listener = Listen("::", 0);
  ASSERT_TRUE(listener.ok());
  const auto soon = [] { return Clock::now() + std::chrono::seconds(10); };
  for (const char* host : {"127.0.0.1", "::1"}) {
    auto caller = StartConnect(host, listener->port);
    ASSERT_TRUE(caller.ok()) << host;
    ASSERT_TRUE(WaitFor(listener->fd.get(), POLLIN, soon()).value()) << host;
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    auto* address = reinterpret_cast<sockaddr*>(&peer);
    const UniqueFd accepted(accept4(listener->fd.get(), address, &size, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted) << host;
    EXPECT_EQ(AddressText(address), host);
    EXPECT_TRUE(FromOwnMachine(accepted.get())) << host;
  }
}

TEST(ListenTest, NoneOfIPv6WhereItIsToldSo) {
  auto listener = Listen("0.0.0.0", 0);
  ASSERT_TRUE(listener.ok());
  auto caller = StartConnect("::1", listener->port);
  if (caller.ok()) {
    pollfd ready{caller->get(), POLLOUT, 0};
    poll(&ready, 1, 10'000);
    EXPECT_TRUE(ready.revents & (POLLERR | POLLHUP));
  }
}

}  // namespace
}  // namespace peercache
