#include "node/report/asker.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "base/interface_address.h"

namespace peercache {

bool IsOfProxies(std::string_view header) {
  std::string name(header);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* exact : {"forwarded", "via", "x-real-ip"})
    if (name == exact) return true;
  // x-envoy-: Istio and others. l5d-: Linkerd.
  for (const char* prefix : {"x-forwarded-", "x-envoy-", "l5d-"})
    if (name.starts_with(prefix)) return true;
  return false;
}

bool AskedDirectly(const char* host, bool forwarded) {
  if (forwarded) return false;
  if (host == nullptr) return true;
  std::string_view name = host;
  if (name.starts_with('[')) {  // [::1]:31997
    const size_t end = name.find(']');
    if (end == std::string_view::npos) return false;
    return IsAddress(std::string(name.substr(1, end - 1)));
  }
  if (std::ranges::count(name, ':') == 1) name = name.substr(0, name.find(':'));
  return name == "localhost" || IsAddress(std::string(name));
}

}  // namespace peercache
