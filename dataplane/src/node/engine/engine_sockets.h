// EngineSockets: all sockets where engines attach to a node: its own, and one for each tenant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "node/engine/engine_server.h"
#include "node/engine/tenant_sockets.h"
#include "node/tenant/tenants.h"

namespace peercache {

struct EngineSocketsOptions {
  // Where engines of `tenant` attach; empty: nowhere but in `tenants_dir`.
  std::string socket;
  uint32_t mode = 0666;     // of each socket
  std::string tenant;       // empty: the shared tenant
  std::string tenants_dir;  // empty: no other sockets
  std::string tenant_socket_name;
};

class EngineSockets {
 public:
  // Binds `socket`, before anything that takes long. `tenants` outlives this.
  static Result<std::unique_ptr<EngineSockets>> Bind(EngineSocketsOptions options,
                                                     Tenants* tenants);
  ~EngineSockets();

  // Serves there, and in the folders of `tenants_dir`, from now on.
  Status Serve(const EngineServerOptions& options, const EngineServices& services);
  std::vector<EngineInfo> engines() const;
  // Folders of tenants where no socket could be made.
  size_t unserved() const { return folders_ ? folders_->unserved() : 0; }

 private:
  EngineSockets(EngineSocketsOptions options, Tenants* tenants)
      : options_(std::move(options)), tenants_(tenants) {}

  const EngineSocketsOptions options_;
  Tenants* const tenants_;
  std::shared_ptr<Tenant> tenant_;  // of `socket`; null: there is none
  UniqueFd listener_;
  std::unique_ptr<EngineServer> own_;
  std::unique_ptr<TenantSockets> folders_;
};

}  // namespace peercache
