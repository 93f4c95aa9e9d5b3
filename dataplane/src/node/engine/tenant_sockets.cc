#include "node/engine/tenant_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/thread.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// Names that were complained of are remembered, so that each is named once.
constexpr size_t kMostSaid = 1024;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// The inode of the file in the folder; 0: there is none.
ino_t InodeOf(int folder, const std::string& file) {
  struct stat status {};
  return fstatat(folder, file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_ino : 0;
}

// Whose folder it is, if that is why no socket can be made there.
std::string Hint(int folder) {
  struct stat status {};
  if (fstat(folder, &status) != 0 || status.st_uid == geteuid()) return "";
  return fmt::format(
      "; the folder belongs to user {} and this node runs as {}: give it the folder (chown {}), as "
      "the init container does when a pod starts and the CSI driver for later ones",
      status.st_uid, geteuid(), geteuid());
}

}  // namespace

TenantSockets::TenantSockets(TenantSocketsOptions options, Tenants* tenants, Serve serve)
    : options_(std::move(options)), tenants_(tenants), serve_(std::move(serve)) {}

Result<std::unique_ptr<TenantSockets>> TenantSockets::Open(TenantSocketsOptions options,
                                                           Tenants* tenants, Serve serve) {
  auto sockets = std::unique_ptr<TenantSockets>(
      new TenantSockets(std::move(options), tenants, std::move(serve)));
  if (Status s = sockets->Look(); !s.ok()) return s;
  auto thread = StartThread([self = sockets.get()] { self->Run(); });
  if (!thread.ok()) return thread.status();
  sockets->thread_ = std::move(*thread);
  return sockets;
}

TenantSockets::~TenantSockets() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (auto& [name, folder] : served_) Close(std::move(folder));
  for (Folder& folder : leaving_) {
    folder.server.reset();
    tenants_->Leave(*folder.tenant);
  }
}

void TenantSockets::Run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kLookEvery, [this] { return stop_; })) {
    lock.unlock();
    const Status looked = Look();
    Say("", looked.ok() ? "" : looked.message());
    lock.lock();
  }
}

std::vector<EngineInfo> TenantSockets::engines() const {
  std::vector<EngineInfo> all;
  std::lock_guard lock(mutex_);
  const auto add = [&](const Folder& folder) {
    for (EngineInfo& engine : folder.server->engines()) all.push_back(std::move(engine));
  };
  for (const auto& [name, folder] : served_) add(folder);
  for (const Folder& folder : leaving_) add(folder);
  return all;
}

size_t TenantSockets::unserved() const {
  std::lock_guard lock(mutex_);
  return unserved_;
}

void TenantSockets::Say(const std::string& name, const std::string& text) {
  if (said_.size() >= kMostSaid && !said_.contains(name)) return;
  if (std::exchange(said_[name], text) == text || text.empty()) return;
  if (name.empty()) {
    spdlog::error("tenants-dir: {}; trying again", text);
  } else {
    spdlog::warn("tenants-dir: {}/{}: {}", options_.directory, name, text);
  }
}

Result<std::map<std::string, UniqueFd>> TenantSockets::Folders() {
  std::map<std::string, UniqueFd> folders;
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(options_.directory.c_str()));
  if (!directory) {
    if (errno == ENOENT && !served_.empty()) return folders;  // all are gone with it
    return FromErrno(fmt::format("opening \"{}\": make the directory, or set tenants-dir to the "
                                 "one that has a folder for each tenant",
                                 options_.directory),
                     errno);
  }
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (!IsTenantName(name)) {
      Say(name, "is ignored, because no namespace can have that name");
      continue;
    }
    UniqueFd fd(openat(dirfd(directory.get()), name.c_str(),
                       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd) {
      folders.emplace(name, std::move(fd));
    } else if (errno != ENOENT) {  // not gone meanwhile
      Say(name, "is ignored, because it is not a folder; links are not followed");
    }
  }
  if (errno != 0) return FromErrno(fmt::format("reading \"{}\"", options_.directory), errno);
  return folders;
}

bool TenantSockets::StillThere(const Folder& folder, int now) const {
  struct stat status {};
  return fstat(now, &status) == 0 && status.st_dev == folder.device &&
         status.st_ino == folder.inode && InodeOf(now, options_.file) == folder.socket;
}

Status TenantSockets::Listen(const std::string& name, UniqueFd fd) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return FromErrno("checking it", errno);
  // By the descriptor: whatever takes the folder's place, the socket is made in this one.
  auto listener =
      ListenUnix(fmt::format("/proc/self/fd/{}/{}", fd.get(), options_.file), options_.mode);
  if (!listener.ok()) {
    return {listener.status().code(), fmt::format("its engines are not served, {}{}; trying again",
                                                  listener.status().message(), Hint(fd.get()))};
  }
  auto tenant = tenants_->Enter(name);
  if (!tenant.ok()) {
    unlinkat(fd.get(), options_.file.c_str(), 0);
    return tenant.status().Annotate("its engines are not served");
  }
  auto server = serve_(std::move(*listener), *tenant);
  if (!server.ok()) {
    unlinkat(fd.get(), options_.file.c_str(), 0);
    tenants_->Leave(**tenant);
    return {server.status().code(),
            fmt::format("its engines are not served, {}; trying again", server.status().message())};
  }
  Folder folder;
  folder.device = status.st_dev;
  folder.inode = status.st_ino;
  folder.socket = InodeOf(fd.get(), options_.file);
  folder.fd = std::move(fd);
  folder.tenant = *tenant;
  folder.server = std::move(*server);
  spdlog::info("engines of tenant {} at {}/{}/{}", name, options_.directory, name, options_.file);
  std::lock_guard lock(mutex_);
  served_.emplace(name, std::move(folder));
  return {};
}

void TenantSockets::Close(Folder folder) {
  folder.server.reset();
  if (InodeOf(folder.fd.get(), options_.file) == folder.socket)
    unlinkat(folder.fd.get(), options_.file.c_str(), 0);
  tenants_->Leave(*folder.tenant);
}

Status TenantSockets::Look() {
  auto folders = Folders();
  if (!folders.ok()) return folders.status();
  std::vector<Folder> idle;
  {
    std::lock_guard lock(mutex_);
    for (auto it = served_.begin(); it != served_.end();) {
      const auto now = folders->find(it->first);
      if (now != folders->end() && StillThere(it->second, now->second.get())) {
        folders->erase(now);
        ++it;
        continue;
      }
      spdlog::info("tenant {}: its folder, or the socket in it, is gone", it->first);
      it->second.server->StopListening();
      leaving_.push_back(std::move(it->second));
      it = served_.erase(it);
    }
    const auto gone = std::partition(leaving_.begin(), leaving_.end(),
                                     [](Folder& folder) { return !folder.server->idle(); });
    std::move(gone, leaving_.end(), std::back_inserter(idle));
    leaving_.erase(gone, leaving_.end());
  }
  for (Folder& folder : idle) {
    folder.server.reset();
    tenants_->Leave(*folder.tenant);
  }
  size_t unserved = 0;
  for (auto& [name, fd] : *folders) {
    const Status listens = Listen(name, std::move(fd));
    Say(name, listens.ok() ? "" : listens.message());
    unserved += !listens.ok();
  }
  std::lock_guard lock(mutex_);
  unserved_ = unserved;
  return {};
}

}  // namespace peercache
