#include "transport/rdma/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "transport/rdma/on_demand.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {
namespace {

uint32_t NonNegative(int value) { return static_cast<uint32_t>(std::max(value, 0)); }

Result<ContextHandle> Open(const Verbs& verbs, const std::string& name) {
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (list == nullptr) return FromErrno("listing the RDMA devices", errno);
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> owner(list, verbs.free_device_list);
  for (int i = 0; i < count; ++i) {
    if (name != verbs.get_device_name(list[i])) continue;
    ContextHandle context(verbs.open_device(list[i]));
    if (context) return context;
    return Unavailable(
        fmt::format("{}: opening /dev/infiniband/{}: {}; give this process read and write access "
                    "to it (in a container, the RDMA resource of the device plugin)",
                    name, list[i]->dev_name, std::strerror(errno)));
  }
  return Unavailable(
      fmt::format("{}: libibverbs does not list it; load ib_uverbs, install the device's provider "
                  "(ibverbs-providers) and, in a container, mount /dev/infiniband",
                  name));
}

// A descriptor that does not exist tells the drivers that know dmabuf (EBADF) from those that do
// not, without a GPU.
Support ProbeDmabuf(const Verbs& verbs, ibv_context* context) {
  if (verbs.reg_dmabuf_mr == nullptr) return Support::kNo;
  const PdHandle pd(verbs.alloc_pd(context));
  if (!pd) return Support::kUnknown;
  errno = 0;
  const MrHandle mr(verbs.reg_dmabuf_mr(pd.get(), 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  switch (errno) {
    case EBADF: return Support::kYes;
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case ENOSYS: return Support::kNo;
    default: return Support::kUnknown;
  }
}

}  // namespace

Result<ProbedDevice> ProbeWithVerbs(const std::string& device, size_t ports) {
  const auto verbs = Verbs::Load();
  if (!verbs.ok()) return verbs.status();
  auto context = Open(**verbs, device);
  if (!context.ok()) return context.status();

  ibv_device_attr_ex attributes;
  if (const int error = (*verbs)->QueryDeviceEx(context->get(), &attributes); error != 0)
    return FromErrno(device + ": ibv_query_device", error);
  const ibv_device_attr& a = attributes.orig_attr;
  ProbedDevice probed;
  probed.limits = {.max_qp = NonNegative(a.max_qp),
                   .max_qp_wr = NonNegative(a.max_qp_wr),
                   .max_sge = NonNegative(a.max_sge),
                   .max_sge_rd = NonNegative(a.max_sge_rd),
                   .max_cqe = NonNegative(a.max_cqe),
                   .max_mr = NonNegative(a.max_mr),
                   .max_mr_size = a.max_mr_size,
                   .max_qp_rd_atom = NonNegative(a.max_qp_rd_atom),
                   .max_qp_init_rd_atom = NonNegative(a.max_qp_init_rd_atom),
                   .on_demand_paging = CheckOnDemandPaging(attributes.odp_caps)};
  probed.dmabuf = ProbeDmabuf(**verbs, context->get());
  for (size_t number = 1; number <= ports; ++number) {
    ibv_port_attr port;
    if ((*verbs)->QueryPort(context->get(), static_cast<uint8_t>(number), &port) == 0)
      probed.ports.push_back({MtuBytes(port.active_mtu), MtuBytes(port.max_mtu)});
    else
      probed.ports.emplace_back();
  }
  return probed;
}

}  // namespace peercache::rdma
