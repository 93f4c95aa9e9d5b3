#include "transport/rdma/verbs.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "transport/rdma/find_symbol.h"

namespace peercache::rdma {
namespace {

constexpr char kLibrary[] = "libibverbs.so.1";

// Destroying fails when an object is still in use, which is a mistake of ours; and, in some
// versions, with EIO when the device was taken away, which the kernel has destroyed it with.
void Check(int error, const char* what) {
  if (error != 0 && error != EIO) spdlog::error("RDMA: {} failed: {}", what, std::strerror(error));
}

const Verbs& Table() { return **Verbs::Load(); }

// Registered memory is copied for a child at fork() since Linux 5.12. Before, the pages would
// become the child's, and the device would write into those of nobody.
void MakeSafeForFork(void* library) {
  enum ibv_fork_status (*state)() = nullptr;  // since rdma-core 35
  int (*init)() = nullptr;
  if (FindSymbol(library, "ibv_is_fork_initialized", &state) && state() == IBV_FORK_UNNEEDED)
    return;
  utsname kernel{};
  uname(&kernel);
  if (state == nullptr && ForkCopiesRegisteredMemory(kernel.release)) return;
  if (!FindSymbol(library, "ibv_fork_init", &init)) return;
  if (const int error = init(); error != 0) {
    spdlog::warn(
        "RDMA: ibv_fork_init failed ({}), since something else in this process has used verbs "
        "before: a child that is forked may corrupt registered memory; use Linux 5.12 or later",
        std::strerror(error));
  }
}

}  // namespace

bool ForkCopiesRegisteredMemory(const char* kernel_release) {
  int major = 0, minor = 0;
  if (std::sscanf(kernel_release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 12);
}

Result<const Verbs*> Verbs::Load(Process process) {
  static const Result<Verbs> loaded = [process]() -> Result<Verbs> {
    // Never unloaded: providers register themselves in it.
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return Unavailable(
          fmt::format("{} cannot be loaded ({}): install libibverbs1 and ibverbs-providers "
                      "(rdma-core)",
                      kLibrary, dlerror()));
    }
    Verbs v;
    std::string missing;
    const auto need = [&](const char* name, auto* function) {
      if (!FindSymbol(library, name, function)) missing += std::string(" ") + name;
    };
    need("ibv_get_device_list", &v.get_device_list);
    need("ibv_free_device_list", &v.free_device_list);
    need("ibv_get_device_name", &v.get_device_name);
    need("ibv_get_device_guid", &v.get_device_guid);
    need("ibv_open_device", &v.open_device);
    need("ibv_close_device", &v.close_device);
    need("ibv_query_device", &v.query_device);
    need("ibv_query_port", &v.query_port);
    need("ibv_query_pkey", &v.query_pkey);
    need("ibv_query_gid", &v.query_gid);
    need("ibv_get_async_event", &v.get_async_event);
    need("ibv_ack_async_event", &v.ack_async_event);
    need("ibv_alloc_pd", &v.alloc_pd);
    need("ibv_dealloc_pd", &v.dealloc_pd);
    need("ibv_reg_mr", &v.reg_mr);
    need("ibv_dereg_mr", &v.dereg_mr);
    need("ibv_create_comp_channel", &v.create_comp_channel);
    need("ibv_destroy_comp_channel", &v.destroy_comp_channel);
    need("ibv_create_cq", &v.create_cq);
    need("ibv_destroy_cq", &v.destroy_cq);
    need("ibv_get_cq_event", &v.get_cq_event);
    need("ibv_ack_cq_events", &v.ack_cq_events);
    need("ibv_create_qp", &v.create_qp);
    need("ibv_modify_qp", &v.modify_qp);
    need("ibv_destroy_qp", &v.destroy_qp);
    need("ibv_wc_status_str", &v.wc_status_str);
    need("ibv_port_state_str", &v.port_state_str);
    need("ibv_event_type_str", &v.event_type_str);
    FindSymbol(library, "ibv_reg_mr_iova2", &v.reg_mr_iova2);
    FindSymbol(library, "ibv_reg_dmabuf_mr", &v.reg_dmabuf_mr);
    FindSymbol(library, "ibv_query_ece", &v.query_ece);
    FindSymbol(library, "ibv_set_ece", &v.set_ece);
    if (!missing.empty()) {
      return Unavailable(fmt::format("{} is too old, it lacks{}: install rdma-core 24 or later",
                                     kLibrary, missing));
    }
    if (process == Process::kMayFork) MakeSafeForFork(library);
    return v;
  }();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

// As the header's inline functions do: the provider's own entry where it has one, since the
// library's symbol fills an older, shorter structure.
int Verbs::QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const {
  std::memset(attributes, 0, sizeof(*attributes));
  verbs_context* extended = __extension__ verbs_get_ctx_op(context, query_port);
  if (extended == nullptr) return query_port(context, port, attributes);
  return extended->query_port(context, port, attributes, sizeof(*attributes));
}

int Verbs::QueryDeviceEx(ibv_context* context, ibv_device_attr_ex* attributes) const {
  std::memset(attributes, 0, sizeof(*attributes));
  verbs_context* extended = __extension__ verbs_get_ctx_op(context, query_device_ex);
  if (extended != nullptr)
    return extended->query_device_ex(context, nullptr, attributes, sizeof(*attributes));
  return query_device(context, &attributes->orig_attr);
}

void Release::operator()(ibv_context* context) const {
  Check(Table().close_device(context), "ibv_close_device");
}
void Release::operator()(ibv_pd* pd) const { Check(Table().dealloc_pd(pd), "ibv_dealloc_pd"); }
void Release::operator()(ibv_mr* mr) const { Check(Table().dereg_mr(mr), "ibv_dereg_mr"); }
void Release::operator()(ibv_comp_channel* channel) const {
  Check(Table().destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}
void Release::operator()(ibv_cq* cq) const { Check(Table().destroy_cq(cq), "ibv_destroy_cq"); }
void Release::operator()(ibv_qp* qp) const { Check(Table().destroy_qp(qp), "ibv_destroy_qp"); }

}  // namespace peercache::rdma
