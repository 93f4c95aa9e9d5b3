// Who asks: whether a request that comes from this machine's own address is of somebody here.
#pragma once

namespace peercache {

// A proxy on this machine may ask for anybody; it says so by `forwarded`. A browser here may ask
// for a foreign page whose name somebody has made to lead to this machine (DNS rebinding): it then
// sends that name as `host`. So true where nobody forwards, and `host` is an IP address or
// localhost, each with or without a port, or null. Pure.
bool AskedDirectly(const char* host, bool forwarded);

}  // namespace peercache
