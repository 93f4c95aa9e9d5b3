// TenantSockets: a socket in every folder of a directory, each for the engines of the tenant that
// the folder is named after.
//
//   /run/peercache/tenants/team-a/kv.sock      engines of the tenant team-a
//   /run/peercache/tenants/team-b/kv.sock
//
// Whoever makes the folders and gives them to pods (the kubelet, a CSI driver) thereby says who an
// engine is; the node never asks the engine. Folders are looked for every kLookEvery, so one that
// appears is served within a second. When one is gone, or is another one under the same name, its
// socket is closed; engines that are attached stay until they end.
//
// Folders whose name no namespace can have, and links, are left alone. What cannot be served is
// tried again with every look and logged once for each reason: a folder of another user, where
// this process may not make a socket; more than 64 tenants; no thread for one more.
//
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "node/engine/engine_server.h"
#include "node/tenant/tenants.h"

namespace peercache {

struct TenantSocketsOptions {
  std::string directory;
  std::string file;  // name of each socket
  uint32_t mode = 0666;
};

class TenantSockets {
 public:
  static constexpr milliseconds kLookEvery{500};

  using Serve = std::function<Result<std::unique_ptr<EngineServer>>(
      UniqueFd listener, std::shared_ptr<Tenant> tenant)>;
  // Looks once before it returns. Fails when the directory cannot be read.
  static Result<std::unique_ptr<TenantSockets>> Open(TenantSocketsOptions options, Tenants* tenants,
                                                     Serve serve);
  ~TenantSockets();

  std::vector<EngineInfo> engines() const;
  // Folders of tenants that have no socket, for a reason that was logged.
  size_t unserved() const;

 private:
  struct Folder {
    UniqueFd fd;
    dev_t device = 0;
    ino_t inode = 0;
    ino_t socket = 0;  // inode of its file
    std::shared_ptr<Tenant> tenant;
    std::unique_ptr<EngineServer> server;
  };

  TenantSockets(TenantSocketsOptions options, Tenants* tenants, Serve serve);
  Status Look();
  // Of the folders in the directory, by name.
  Result<std::map<std::string, UniqueFd>> Folders();
  Status Listen(const std::string& name, UniqueFd fd);
  bool StillThere(const Folder& folder, int now) const;
  void Close(Folder folder);
  // Once for each text.
  void Say(const std::string& name, const std::string& text);
  void Run();

  const TenantSocketsOptions options_;
  Tenants* const tenants_;
  const Serve serve_;
  std::map<std::string, std::string> said_;  // of the thread, once it runs
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::map<std::string, Folder> served_;
  std::vector<Folder> leaving_;  // without a listener, until their engines have ended
  size_t unserved_ = 0;
  std::thread thread_;
};

}  // namespace peercache
