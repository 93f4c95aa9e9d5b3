#include "node/engine/session_list.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

namespace peercache {

uint64_t SessionList::NewId() {
  uint64_t id = 0;
  while (id == 0) id = (uint64_t{random_()} << 32) | random_();
  return id;
}

Result<std::shared_ptr<Session>> SessionList::Join(uint64_t id, const PeerCredentials& peer) const {
  std::shared_ptr<Session> session;
  for (const auto& entry : sessions_) {
    auto known = entry.lock();
    if (known && known->id() == id) session = std::move(known);
  }
  if (!session) return Status(Code::kAborted, "unknown session: the node has restarted since");
  if (session->owner().uid != peer.uid) {
    counters_->engine_refused_user.Add(1);
    return Status(Code::kUnauthenticated,
                  fmt::format("the session belongs to user {}, this process to user {}",
                              session->owner().uid, peer.uid));
  }
  // One reference is this function's.
  if (session.use_count() > limits_.connections) {
    counters_->engine_refused_limit.Add(1);
    return ResourceExhausted(
        fmt::format("an engine may have at most {} connections", limits_.connections));
  }
  return session;
}

Result<std::shared_ptr<Session>> SessionList::Attach(const AttachRequest& request,
                                                     const PeerCredentials& peer) {
  std::lock_guard lock(mutex_);
  std::erase_if(sessions_, [](const auto& entry) { return entry.expired(); });
  if (request.session != 0) return Join(request.session, peer);
  auto seat = tenants_->Admit(tenant_.get(), peer.process);
  if (!seat.ok()) {
    counters_->engine_refused_limit.Add(1);
    return seat.status();
  }
  auto session = std::make_shared<Session>(NewId(), request.engine, request.version, peer,
                                           limits_.calls, tenant_, std::move(*seat));
  sessions_.push_back(session);
  spdlog::info("engine {} attached (client {}, pid {}, uid {}{})", request.engine, request.version,
               peer.pid, peer.uid,
               tenant_->name().empty() ? "" : fmt::format(", tenant {}", tenant_->name()));
  return session;
}

std::vector<EngineInfo> SessionList::engines() const {
  std::lock_guard lock(mutex_);
  std::vector<EngineInfo> all;
  for (const auto& entry : sessions_) {
    const auto session = entry.lock();
    if (!session) continue;
    EngineInfo info;
    info.name = session->engine();
    info.version = session->version();
    info.tenant = tenant_->name();
    info.owner = session->owner();
    info.connections = static_cast<uint32_t>(session.use_count() - 1);
    info.prefill = session->prefill();
    info.regions = static_cast<uint32_t>(session->region_count());
    info.region_bytes = session->region_bytes();
    info.registered_bytes = session->registered_bytes();
    info.pages = session->page_kinds();
    all.push_back(std::move(info));
  }
  return all;
}

}  // namespace peercache
