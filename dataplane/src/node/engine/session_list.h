// SessionList: the sessions of one socket, so of one tenant. A connection joins a session of its
// own socket and its own user, or makes one; it cannot join another tenant's, whose sessions are
// in another list.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "node/count/counters.h"
#include "node/engine/session.h"
#include "node/tenant/tenants.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {

struct EngineInfo {
  std::string name, version;
  std::string tenant;  // empty: the shared one
  PeerCredentials owner;
  uint32_t connections = 0;
  uint32_t prefill = 0;  // tokens a second; 0: it has not said
  uint32_t regions = 0;
  uint64_t region_bytes = 0;
  uint64_t registered_bytes = 0;  // of these, what RDMA reaches
  Session::PageKinds pages;       // and in which pages they are
};

class SessionList {
 public:
  struct Limits {
    uint32_t connections = 0;  // of a session
    uint32_t calls = 0;        // of a session, carried out at once
  };
  SessionList(Tenants* tenants, std::shared_ptr<Tenant> tenant, Limits limits, Counters* counters)
      : tenants_(tenants), tenant_(std::move(tenant)), limits_(limits), counters_(counters) {}

  // The session that the request names, or a new one if it names none.
  Result<std::shared_ptr<Session>> Attach(const AttachRequest& request,
                                          const PeerCredentials& peer);
  std::vector<EngineInfo> engines() const;

 private:
  Result<std::shared_ptr<Session>> Join(uint64_t id, const PeerCredentials& peer) const;
  uint64_t NewId();

  Tenants* const tenants_;
  const std::shared_ptr<Tenant> tenant_;
  const Limits limits_;
  Counters* const counters_;
  mutable std::mutex mutex_;
  std::random_device random_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace peercache
