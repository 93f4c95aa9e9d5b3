// Verbs: libibverbs, loaded when it is first asked for, so that the same binary runs where neither
// the library nor a device exists.
//
//   auto verbs = Verbs::Load();
//   if (!verbs.ok()) ...                       // says why, and which package brings the library
//   MrHandle mr((*verbs)->reg_mr(pd, address, length, IBV_ACCESS_LOCAL_WRITE));
//
// Posting and polling need no entry here: these are inline functions of <infiniband/verbs.h> that
// call the device's own code. Everything else goes through the table; never call the functions of
// that header by name, they would have to be linked.
//
// Thread-safe. The library stays loaded for the life of the process.
#pragma once

#include <infiniband/verbs.h>

// Macros of that header would rename the entries below.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace peercache::rdma {

struct Verbs {
  // Whether this process may fork, as an engine that a node is embedded in does.
  enum class Process : uint8_t { kNeverForks, kMayFork };

  // The one table of the process; kUnavailable when the library is not there or is too old. The
  // first call says what `process` is: memory is made safe for fork before any other verb is used,
  // since libibverbs refuses that later.
  static Result<const Verbs*> Load(Process process = Process::kNeverForks);

  // As in libibverbs, by the same names.
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  __be64 (*get_device_guid)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  int (*query_pkey)(ibv_context* context, uint8_t port, int index, __be16* pkey) = nullptr;
  int (*query_gid)(ibv_context* context, uint8_t port, int index, ibv_gid* gid) = nullptr;
  int (*get_async_event)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ack_async_event)(ibv_async_event* event) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* pd) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length, int access) = nullptr;
  // Null in libraries before 28 (2020), which do not know optional access flags. Those that have it
  // take such flags away where the kernel does not know them.
  ibv_mr* (*reg_mr_iova2)(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                          unsigned int access) = nullptr;
  int (*dereg_mr)(ibv_mr* mr) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel* channel) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* cq) = nullptr;
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** user) = nullptr;
  void (*ack_cq_events)(ibv_cq* cq, unsigned int count) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attributes) = nullptr;
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attributes, int mask) = nullptr;
  int (*destroy_qp)(ibv_qp* qp) = nullptr;
  const char* (*wc_status_str)(ibv_wc_status status) = nullptr;
  const char* (*port_state_str)(ibv_port_state state) = nullptr;
  const char* (*event_type_str)(ibv_event_type type) = nullptr;
  // Null in libraries before 34 (2021): memory of a GPU cannot be registered by descriptor then.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                           int access) = nullptr;

  // Null in libraries before 31 (2020).
  int (*query_ece)(ibv_qp* qp, ibv_ece* ece) = nullptr;
  int (*set_ece)(ibv_qp* qp, ibv_ece* ece) = nullptr;

  // errno of the failure, 0 when it worked. These two are partly inline in the header.
  int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const;
  int QueryDeviceEx(ibv_context* context, ibv_device_attr_ex* attributes) const;

 private:
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes) = nullptr;
};

// Whether the kernel of that release (uname) copies registered memory for a child at fork(), so
// that the device goes on with the parent's. Of a text that is no release: false.
bool ForkCopiesRegisteredMemory(const char* kernel_release);

// Of payload in a packet; 0: unknown.
constexpr uint32_t MtuBytes(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << static_cast<unsigned>(mtu) : 0;
}

// Owners of verbs objects. Each must go before what it was made from: QPs and MRs before their PD
// and CQs, all of these before their context.
struct Release {
  void operator()(ibv_context* context) const;
  void operator()(ibv_pd* pd) const;
  void operator()(ibv_mr* mr) const;
  void operator()(ibv_comp_channel* channel) const;
  void operator()(ibv_cq* cq) const;
  void operator()(ibv_qp* qp) const;
};
using ContextHandle = std::unique_ptr<ibv_context, Release>;
using PdHandle = std::unique_ptr<ibv_pd, Release>;
using MrHandle = std::unique_ptr<ibv_mr, Release>;
using CompChannelHandle = std::unique_ptr<ibv_comp_channel, Release>;
using CqHandle = std::unique_ptr<ibv_cq, Release>;
using QpHandle = std::unique_ptr<ibv_qp, Release>;

}  // namespace peercache::rdma
