// Numeric addresses, and the one at which others reach this host's network interface of a given
// name.
//
//   auto address = InterfaceAddress("rail0");  // "192.168.10.7"
#pragma once

#include <sys/socket.h>

#include <span>
#include <string>

#include "base/status.h"

namespace peercache {

// Whether this is a numeric IPv4 or IPv6 address.
bool IsAddress(const std::string& text);
// The numeric IPv4 or IPv6 address without its port; empty of another family.
std::string AddressText(const sockaddr* address);

// Fails, and says what there is, when there is no such interface, or it has no address for others.
Result<std::string> InterfaceAddress(const std::string& name);

// Of an interface's numeric addresses the one to tell others: IPv4 before IPv6. Empty when all are
// link-local, which mean nothing without an interface of whoever asks.
std::string AddressForOthers(std::span<const std::string> addresses);

}  // namespace peercache
