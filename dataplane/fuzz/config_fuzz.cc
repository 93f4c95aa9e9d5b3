// Configuration: texts that people write, on the command line, in the configuration file and in the
// token file. The first byte chooses the parser; what it takes, written again, means the same.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "base/fd.h"
#include "base/memory.h"
#include "base/size.h"
#include "fuzz.h"
#include "node/config/command_line.h"
#include "node/config/config.h"
#include "node/engine/uid_list.h"
#include "node/peer/secret.h"
#include "node/tenant/tenant_key.h"
#include "transport/tcp/socket.h"

namespace peercache::fuzz {
namespace {

Reached sizes("sizes"), hosts("host lists"), users("user lists"), options("options taken"),
    refused("options refused"), files("files taken"), broken("files refused"), tokens("tokens"),
    tenants("tenants");

void FuzzSize(const std::string& text) {
  auto size = ParseSize(text);
  if (!size.ok()) return;
  sizes.Hit();
  auto again = ParseSize(FormatSize(*size));
  Require(again.ok() && *again == *size, "a size that is printed can be read");
}

void FuzzHostPorts(const std::string& text) {
  auto list = ParseHostPorts(text);
  if (!list.ok()) return;
  hosts.Hit();
  std::string written;
  for (const HostPort& h : *list) {
    Require(!h.host.empty() && h.port != 0, "a host and a port");
    written += fmt::format("{}[{}]:{}", written.empty() ? "" : ",", h.host, h.port);
  }
  auto again = ParseHostPorts(written);
  Require(again.ok() && again->size() == list->size(), "as many when written again");
  for (size_t i = 0; i < list->size(); ++i) {
    Require((*again)[i].host == (*list)[i].host && (*again)[i].port == (*list)[i].port, "the same");
  }
}

void FuzzUids(const std::string& text) {
  auto list = UidList::Parse(text);
  if (!list.ok()) return;
  users.Hit();
  auto again = UidList::Parse(list->ToString());
  Require(again.ok() && again->ToString() == list->ToString(), "the same users");
}

void FuzzTenant(const std::string& text) {
  if (!IsTenantName(text)) return;
  tenants.Hit();
  Require(ParseConfig({{"tenant", text}}).ok(), "a name that a folder may have");
}

// One option by number, and its value.
void FuzzOption(uint8_t which, const std::string& value) {
  const ConfigOption& option = ConfigOptions()[which % ConfigOptions().size()];
  auto config = ParseConfig({{option.name, value}});
  (config.ok() ? options : refused).Hit();
  if (config.ok()) return;
  Require(config.status().code() == Code::kInvalidArgument, "the caller's input is wrong");
  Require(config.status().message().find(option.name) != std::string::npos, "names the option");
}

void FuzzFile(Input contents) {
  UniqueFd file(memfd_create("config", MFD_CLOEXEC));
  Require(
      write(file.get(), contents.data(), contents.size()) == static_cast<ssize_t>(contents.size()),
      "written");
  CLI::App app;
  std::map<std::string, std::string> values;
  AddNodeOptions(&app, &values);
  try {
    app.parse(fmt::format("--config /proc/self/fd/{}", file.get()));
  } catch (const CLI::ParseError&) {
    broken.Hit();
    return;
  }
  files.Hit();
  (void)ParseConfig(values);
}

void FuzzToken(const std::string& contents) {
  auto secret = Secret::Of(contents, "fuzz", std::chrono::seconds(60));
  if (!secret.ok()) return;
  tokens.Hit();
  const TimePoint now = Clock::now();
  const auto key = (*secret)->ToProve(now);
  Require(!(*secret)->none() && key && key->id != 0, "a file never means no authentication");
  Require((*secret)->Find(key->id, now).has_value(), "what is proven is accepted");
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  const Input input(data, size);
  if (input.empty()) return 0;
  const Input rest = input.subspan(1);
  const std::string text(rest.begin(), rest.end());
  switch (input[0] % 8) {
    case 0: FuzzSize(text); break;
    case 1: FuzzHostPorts(text); break;
    case 2: FuzzUids(text); break;
    case 3:
      (void)peercache::ParseHugePages(text);
      FuzzTenant(text);
      break;
    case 4:
      if (!rest.empty()) FuzzOption(rest[0], text.substr(1));
      break;
    case 5: FuzzToken(text); break;
    default: FuzzFile(rest); break;
  }
  return 0;
}
