#include "transport/rdma/device_context.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

#include "transport/rdma/on_demand.h"

namespace peercache::rdma {

Result<std::shared_ptr<DeviceContext>> DeviceContext::Open(const std::string& name, uint8_t port) {
  const auto loaded = Verbs::Load();
  if (!loaded.ok()) return loaded.status();
  const Verbs& verbs = **loaded;
  auto device = std::make_shared<DeviceContext>();
  device->verbs = &verbs;
  device->port = port;

  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (list == nullptr) return FromErrno("listing RDMA devices", errno);
  int error = ENODEV;
  for (int i = 0; i < count && !device->context; ++i) {
    if (verbs.get_device_name(list[i]) != name) continue;
    device->context.reset(verbs.open_device(list[i]));
    error = errno;
  }
  verbs.free_device_list(list);
  if (!device->context) {
    return FromErrno(fmt::format("opening device {} of {} (is it in `rdma link show` and in this "
                                 "network namespace, and /dev/infiniband in this container?)",
                                 name, count),
                     error);
  }
  ibv_context* const context = device->context.get();
  ibv_device_attr_ex limits;
  if (const int e = verbs.QueryDeviceEx(context, &limits); e != 0)
    return FromErrno("asking for the device's limits", e);
  device->limits = limits.orig_attr;
  device->on_demand_paging = CheckOnDemandPaging(limits.odp_caps);
  ibv_port_attr attributes;
  if (const int e = verbs.QueryPort(context, port, &attributes); e != 0)
    return FromErrno(fmt::format("asking for port {}", port), e);
  device->max_message_bytes = attributes.max_msg_sz;
  device->pd.reset(verbs.alloc_pd(context));
  if (!device->pd) return FromErrno("allocating a protection domain", errno);
  device->answering.reset(verbs.create_cq(context, 1, nullptr, nullptr, 0));
  if (!device->answering) return FromErrno("creating a completion queue", errno);
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  return device;
}

bool DeviceContext::Gone() const {
  ibv_port_attr attributes;
  return failed || IsGone(verbs->QueryPort(context.get(), port, &attributes));
}

bool IsGone(int error) { return error == EIO || error == ENODEV; }

}  // namespace peercache::rdma
