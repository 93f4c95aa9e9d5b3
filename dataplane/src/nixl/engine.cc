#include "nixl/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

namespace peercache::nixl {
namespace {

constexpr char kSocket[] = "socket", kTimeout[] = "timeout_ms", kNamespace[] = "namespace";
constexpr uint32_t kDepth = 16384;
// How often a thread that waits for an op looks whether another one has reaped it.
constexpr uint32_t kLookMs = 20;

void Say(const char* doing, const char* why) {
  fprintf(stderr, "NIXL backend PEERCACHE: %s: %s\n", doing, why);
}

std::string NameOf(const nixlBlobDesc& object) {
  return object.metaInfo.empty() ? std::to_string(object.devId) : object.metaInfo;
}

}  // namespace

struct Engine::Object : nixlBackendMD {
  Object(const pc_key& k, uint64_t l) : nixlBackendMD(true), key(k), length(l) {}
  const pc_key key;
  const uint64_t length;
};

struct Engine::Memory : nixlBackendMD {
  Memory(uintptr_t a, size_t l) : nixlBackendMD(true), address(a), length(l) {}
  const uintptr_t address;
  const size_t length;
};

struct Engine::Request : nixlBackendReqH {
  nixl_xfer_op_t operation = NIXL_READ;
  std::vector<Plan> plans;  // of each page
  std::vector<pc_key> keys;
  std::vector<pc_iov> iovs;
  std::vector<uint32_t> counts;  // of iovs, for each page
  Op op;
  bool posted = false;                            // and not checked since it has ended
  nixl_status_t status = NIXL_ERR_INVALID_PARAM;  // when it was checked
};

nixl_b_params_t Engine::Options() {
  const char* socket = getenv("PEERCACHE_SOCKET");
  return {{kSocket, socket != nullptr ? socket : "/run/peercache/default.sock"},
          {kTimeout, "1500"},
          {kNamespace, ""}};
}

Engine::Engine(const nixlBackendInitParams* init) : nixlBackendEngine(init) {
  nixl_b_params_t params = Options();
  for (const auto& [name, value] : getCustomParams()) params[name] = value;
  const std::string engine = "nixl";
  char* end = nullptr;
  pc_open_args args{};
  args.size = sizeof(args);
  args.socket = params[kSocket].c_str();
  args.engine = engine.c_str();
  args.timeout_ms = static_cast<uint32_t>(strtoul(params[kTimeout].c_str(), &end, 10));
  initErr = true;
  if (*end != '\0' || args.timeout_ms == 0) {
    Say("timeout_ms", "give milliseconds, such as 1500");
    return;
  }
  // Pages of other users of the C API have other names.
  const std::string identity = "nixl " + params[kNamespace];
  const pc_queue_args queue{sizeof(queue), 0, kDepth, 0};
  if (pc_open(&args, &client_) != PC_OK || pc_queue_open(client_, &queue, &queue_) != PC_OK ||
      pc_namespace_make(identity.data(), identity.size(), &space_) != PC_OK) {
    Say("opening the client", pc_error());
    return;
  }
  initErr = false;
}

Engine::~Engine() {
  pc_queue_close(queue_);
  pc_close(client_);
}

// ---- memory -------------------------------------------------------------------------------------

pc_key Engine::KeyOf(const nixlBlobDesc& object) const {
  const std::string name = NameOf(object);
  pc_key key{};
  pc_key_make(&space_.prefix, name.data(), name.size(), &key);
  return key;
}

nixl_status_t Engine::registerMem(const nixlBlobDesc& memory, const nixl_mem_t& kind,
                                  nixlBackendMD*& out) {
  if (kind == OBJ_SEG) {
    out = new Object(KeyOf(memory), memory.len);
    return NIXL_SUCCESS;
  }
  if (kind != DRAM_SEG) return NIXL_ERR_NOT_SUPPORTED;
  if (pc_share_range(client_, reinterpret_cast<const void*>(memory.addr), memory.len, nullptr) ==
      PC_EINVAL) {
    return NIXL_ERR_INVALID_PARAM;
  }
  // What is not shared goes through the staging ring.
  out = new Memory(memory.addr, memory.len);
  return NIXL_SUCCESS;
}

nixl_status_t Engine::deregisterMem(nixlBackendMD* memory) {
  // Another registration may hold a part of it: its pages go through the staging ring then.
  if (const auto* host = dynamic_cast<Memory*>(memory))
    (void)pc_unshare(client_, reinterpret_cast<const void*>(host->address), host->length);
  delete memory;
  return NIXL_SUCCESS;
}

// ---- requests -----------------------------------------------------------------------------------

nixl_status_t Engine::PlanPages(const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                                Request* request) {
  if (local.count() != remote.count() || local.count() == 0) return NIXL_ERR_INVALID_PARAM;
  std::map<const Object*, std::vector<Range>> objects;
  for (size_t i = 0; i < remote.count(); ++i) {
    const auto* object = dynamic_cast<const Object*>(remote[i].metadataP);
    if (object == nullptr || local[i].len != remote[i].len) return NIXL_ERR_INVALID_PARAM;
    objects[object].push_back({remote[i].addr, remote[i].len, local[i].addr});
  }
  if (objects.size() > PC_MAX_PAGES) return NIXL_ERR_NOT_SUPPORTED;
  const bool writes = request->operation == NIXL_WRITE;
  for (auto& [object, ranges] : objects) {
    auto plan = writes ? PlanWrite(object->length, std::move(ranges))
                       : PlanRead(object->length, std::move(ranges));
    if (!plan) return writes ? NIXL_ERR_NOT_SUPPORTED : NIXL_ERR_INVALID_PARAM;
    request->keys.push_back(object->key);
    request->iovs.insert(request->iovs.end(), plan->iovs.begin(), plan->iovs.end());
    request->counts.push_back(static_cast<uint32_t>(plan->iovs.size()));
    request->plans.push_back(std::move(*plan));
  }
  return NIXL_SUCCESS;
}

nixl_status_t Engine::prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                               const nixl_meta_dlist_t& remote, const std::string&,
                               nixlBackendReqH*& handle, const nixlBackendOptionalArgs*) const {
  auto request = std::make_unique<Request>();
  request->operation = operation;
  const nixl_status_t planned = PlanPages(local, remote, request.get());
  if (planned == NIXL_SUCCESS) handle = request.release();
  return planned;
}

nixl_status_t Engine::postXfer(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                               const nixl_meta_dlist_t&, const std::string&,
                               nixlBackendReqH*& handle, const nixlBackendOptionalArgs*) const {
  auto* request = dynamic_cast<Request*>(handle);
  if (request == nullptr) return NIXL_ERR_INVALID_PARAM;
  if (UnderWay(request->op)) return NIXL_ERR_REPOST_ACTIVE;
  pc_op op{};
  op.kind = request->operation == NIXL_WRITE ? PC_SET : PC_GET;
  op.tag = request->operation == NIXL_WRITE ? space_.tag : 0;
  op.pages = static_cast<uint32_t>(request->keys.size());
  op.keys = request->keys.data();
  op.iovs = request->iovs.data();
  op.iov_counts = request->counts.data();
  request->posted = Submit(op, &request->op);
  return request->status = request->posted ? NIXL_IN_PROG : NIXL_ERR_BACKEND;
}

nixl_status_t Engine::checkXfer(nixlBackendReqH* handle) const {
  auto* request = dynamic_cast<Request*>(handle);
  if (request == nullptr) return NIXL_ERR_INVALID_PARAM;
  if (UnderWay(request->op)) return NIXL_IN_PROG;
  if (!request->posted) return request->status;
  request->posted = false;
  const std::vector<uint8_t>& ok = request->op.ok;
  request->status = NIXL_SUCCESS;
  for (size_t i = 0; i < ok.size(); ++i) {
    if (ok[i] == 0)
      request->status = request->operation == NIXL_READ ? NIXL_ERR_NOT_FOUND : NIXL_ERR_BACKEND;
  }
  if (request->status == NIXL_SUCCESS) {
    for (const Plan& plan : request->plans) plan.Copied();
  }
  return request->status;
}

nixl_status_t Engine::releaseReqH(nixlBackendReqH* handle) const {
  if (auto* request = dynamic_cast<Request*>(handle); request != nullptr) {
    // The member may write into the request's memory until its op has ended.
    if (UnderWay(request->op)) (void)pc_cancel(queue_, request->op.id);
    Await(request->op);
  }
  delete handle;
  return NIXL_SUCCESS;
}

nixl_status_t Engine::queryMem(const nixl_reg_dlist_t& objects,
                               std::vector<nixl_query_resp_t>& found) const {
  found.assign(objects.count(), std::nullopt);
  std::vector<pc_key> keys;
  for (size_t i = 0; i < objects.count(); ++i) keys.push_back(KeyOf(objects[i]));
  for (size_t at = 0; at < keys.size(); at += PC_MAX_PAGES) {
    pc_op wanted{};
    wanted.kind = PC_PRESENCE;
    wanted.flags = PC_UNCOUNTED;
    wanted.pages = static_cast<uint32_t>(std::min<size_t>(keys.size() - at, PC_MAX_PAGES));
    wanted.keys = keys.data() + at;
    Op op;
    if (!Submit(wanted, &op)) return NIXL_ERR_BACKEND;
    Await(op);
    for (uint32_t i = 0; i < wanted.pages; ++i) {
      if (op.ok[i] != 0) found[at + i] = nixl_b_params_t{};
    }
  }
  return NIXL_SUCCESS;
}

// ---- ops ----------------------------------------------------------------------------------------

bool Engine::Submit(pc_op wanted, Op* op) const {
  std::lock_guard lock(mutex_);
  op->id = ++last_id_;
  op->ok.assign(wanted.pages, 0);
  under_way_[op->id] = op;
  wanted.size = sizeof(wanted);
  wanted.user_data = op->id;
  op->under_way = pc_submit(queue_, &wanted, 1) == 1;
  if (op->under_way) return true;
  Say("a request", pc_error());
  under_way_.erase(op->id);
  return false;
}

bool Engine::UnderWay(const Op& op) const {
  std::lock_guard lock(mutex_);
  pc_completion done[64];
  // Of all requests: whoever looks reaps for the others, too.
  for (int64_t count; op.under_way && (count = pc_reap(queue_, done, std::size(done))) > 0;) {
    for (int64_t i = 0; i < count; ++i) {
      Op* ended = under_way_.at(done[i].user_data);
      for (uint32_t page = 0; page < done[i].count; ++page)
        ended->ok[done[i].first + page] = done[i].ok >> page & 1;
      if ((done[i].flags & PC_MORE) != 0) continue;
      ended->under_way = false;
      under_way_.erase(done[i].user_data);
    }
  }
  return op.under_way;
}

void Engine::Await(const Op& op) const {
  while (UnderWay(op)) (void)pc_wait(queue_, kLookMs);
}

}  // namespace peercache::nixl
