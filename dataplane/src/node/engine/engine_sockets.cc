#include "node/engine/engine_sockets.h"

#include <unistd.h>

#include <utility>

#include "wire/stream.h"

namespace peercache {
namespace {

// An engine makes at most 64 connections (EngineServer::kMaxConnectionsPerEngine) and attaches each
// at once; 65 sockets may have so many threads that wait.
constexpr uint32_t kUnattachedOfATenant = 64;

}  // namespace

Result<std::unique_ptr<EngineSockets>> EngineSockets::Bind(EngineSocketsOptions options,
                                                           Tenants* tenants) {
  auto sockets = std::unique_ptr<EngineSockets>(new EngineSockets(std::move(options), tenants));
  const EngineSocketsOptions& where = sockets->options_;
  if (where.socket.empty()) return sockets;
  auto tenant = tenants->Enter(where.tenant);
  if (!tenant.ok()) return tenant.status();
  sockets->tenant_ = std::move(*tenant);
  auto listener = ListenUnix(where.socket, where.mode);
  if (!listener.ok()) return listener.status();
  sockets->listener_ = std::move(*listener);
  return sockets;
}

EngineSockets::~EngineSockets() {
  folders_.reset();
  // While it listens the file is its own: a node that waits for the socket makes another one after.
  if (own_ || listener_) unlink(options_.socket.c_str());
  own_.reset();
  if (tenant_) tenants_->Leave(*tenant_);
}

Status EngineSockets::Serve(const EngineServerOptions& options, const EngineServices& services) {
  if (listener_) {
    auto own = EngineServer::Serve(std::move(listener_), options, services, tenant_);
    if (!own.ok()) {
      unlink(options_.socket.c_str());
      return own.status();
    }
    own_ = std::move(*own);
  }
  if (options_.tenants_dir.empty()) return {};
  EngineServerOptions of_tenant = options;
  of_tenant.max_unattached = kUnattachedOfATenant;
  auto folders = TenantSockets::Open(
      {options_.tenants_dir, options_.tenant_socket_name, options_.mode}, tenants_,
      [of_tenant, services](UniqueFd listener, std::shared_ptr<Tenant> tenant) {
        return EngineServer::Serve(std::move(listener), of_tenant, services, std::move(tenant));
      });
  if (!folders.ok()) return folders.status().Annotate("tenants-dir");
  folders_ = std::move(*folders);
  return {};
}

std::vector<EngineInfo> EngineSockets::engines() const {
  std::vector<EngineInfo> all;
  if (own_) all = own_->engines();
  if (folders_)
    for (EngineInfo& engine : folders_->engines()) all.push_back(std::move(engine));
  return all;
}

}  // namespace peercache
