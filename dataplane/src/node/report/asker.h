// Who asks: whether a request that comes from this machine's own address is of somebody here.
#pragma once

#include <string_view>

namespace peercache {

// By a header of this name a proxy says that it asks for somebody else. Pure.
bool IsOfProxies(std::string_view header);

// A proxy on this machine may ask for anybody; it says so by `forwarded`. A browser here may ask
// for a foreign page whose name somebody has made to lead to this machine (DNS rebinding): it then
// sends that name as `host`. So true where nobody forwards, and `host` is an IP address or
// localhost, each with or without a port, or null. Pure.
bool AskedDirectly(const char* host, bool forwarded);

}  // namespace peercache
