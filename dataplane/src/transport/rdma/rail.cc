#include "transport/rdma/rail.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

namespace peercache::rdma {
namespace {

// Some devices report that a port went down but not that it came back.
constexpr int kCheckMs = 500;
// A look reads the port's whole table of GIDs, hundreds of small files, and is for what a device
// did not report and a check does not notice: that a port has got the address that it lacks, or a
// better one than it has.
constexpr Duration kLookEvery = std::chrono::seconds(2),
                   kLookEveryWhenUp = std::chrono::seconds(30);

// Whether an event may have changed the port's address; others, of single queue pairs, come in
// hundreds.
bool IsOfPort(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE: return true;
    default: return false;
  }
}

}  // namespace

Rail::Rail(RailSpec spec, LinkOptions link, const Verbs* verbs)
    : spec_(std::move(spec)), link_(link), verbs_(verbs), state_(spec_.name) {}

Result<std::unique_ptr<Rail>> Rail::Open(RailSpec spec, LinkOptions link) {
  auto verbs = Verbs::Load();
  if (!verbs.ok()) return verbs.status();
  auto rail = std::unique_ptr<Rail>(new Rail(std::move(spec), link, *verbs));
  const std::string& name = rail->name();

  int count = 0;
  ibv_device** list = (*verbs)->get_device_list(&count);
  if (list == nullptr) return FromErrno("listing RDMA devices", errno);
  for (int i = 0; i < count && !rail->context_; ++i) {
    if ((*verbs)->get_device_name(list[i]) == rail->spec_.device)
      rail->context_.reset((*verbs)->open_device(list[i]));
  }
  const int error = errno;
  (*verbs)->free_device_list(list);
  if (!rail->context_) {
    return FromErrno(fmt::format("rail {}: opening device {} of {} (is /dev/infiniband in this "
                                 "container, and is the device in its network namespace?)",
                                 name, rail->spec_.device, count),
                     error);
  }
  if (const int e = (*verbs)->query_device(rail->context_.get(), &rail->limits_); e != 0)
    return FromErrno(fmt::format("rail {}: asking for the device's limits", name), e);
  ibv_port_attr port;
  if (const int e = (*verbs)->QueryPort(rail->context_.get(), rail->spec_.port, &port); e != 0)
    return FromErrno(fmt::format("rail {}: asking for port {}", name, rail->spec_.port), e);
  rail->max_message_bytes_ = port.max_msg_sz;
  rail->pd_.reset((*verbs)->alloc_pd(rail->context_.get()));
  if (!rail->pd_)
    return FromErrno(fmt::format("rail {}: allocating a protection domain", name), errno);
  const int fd = rail->context_->async_fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  rail->Look();
  return rail;
}

RailLook Rail::Seen() const {
  ibv_port_attr attributes;
  if (const int e = verbs_->QueryPort(context_.get(), spec_.port, &attributes); e != 0)
    return {FromErrno(fmt::format("asking for port {}", spec_.port), e), WaitsFor::kDevice};
  Device device = ReadDevice(SystemSources(), spec_.device);
  const auto port = std::find_if(device.ports.begin(), device.ports.end(),
                                 [this](const Port& p) { return p.number == spec_.port; });
  if (port == device.ports.end())
    return {Unavailable("its device is gone from /sys/class/infiniband"), WaitsFor::kDevice};
  port->active_mtu = MtuBytes(attributes.active_mtu);
  port->max_mtu = MtuBytes(attributes.max_mtu);
  const RailAddress present = state_.address();
  RailLook look = LookAt(*port, spec_.gid, present.epoch == 0 ? nullptr : &present.gid.address);
  if (look.address.ok()) look.address->mtu = static_cast<uint8_t>(attributes.active_mtu);
  return look;
}

void Rail::Look() {
  looked_ = Clock::now();
  state_.See(Seen());
}

bool Rail::Unchanged() const {
  ibv_port_attr port;
  if (verbs_->QueryPort(context_.get(), spec_.port, &port) != 0) return false;
  const bool active = port.state == IBV_PORT_ACTIVE;
  if (!up()) return active == (state_.waits().what != WaitsFor::kPort);
  const RailAddress address = state_.address();
  if (!active || port.lid != address.lid || port.active_mtu != address.mtu) return false;
  ibv_gid gid{};
  if (verbs_->query_gid(context_.get(), spec_.port, static_cast<int>(address.gid.index), &gid) != 0)
    return false;
  return std::equal(address.gid.address.begin(), address.gid.address.end(), gid.raw);
}

void Rail::Check() {
  if (dead_) return;
  const Duration due = up() ? kLookEveryWhenUp : kLookEvery;
  if (Clock::now() - looked_ >= due || !Unchanged()) Look();
}

void Rail::OnEvents() {
  bool look = false;
  ibv_async_event event;
  while (verbs_->get_async_event(context_.get(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    spdlog::debug("rail {}: event {}", name(), verbs_->event_type_str(type));
    verbs_->ack_async_event(&event);  // before a queue pair that it names is destroyed
    look = look || IsOfPort(type);
    if (type == IBV_EVENT_DEVICE_FATAL && !dead_) {
      dead_ = true;
      state_.See({Unavailable("the device has failed; restart this node when it is back"),
                  WaitsFor::kDevice});
    }
  }
  if (look && !dead_) {
    Look();
  } else {
    Check();
  }
}

Rail::Stats Rail::stats() const {
  return {reads_, bytes_, failures_, state_.downs(), state_.address_changes()};
}

// ---- Rails -------------------------------------------------------------------------------------

Result<std::unique_ptr<Rails>> Rails::Open(std::span<const RailSpec> specs, LinkOptions link) {
  std::vector<std::unique_ptr<Rail>> rails;
  for (const RailSpec& spec : specs.first(std::min(specs.size(), kMaxRails))) {
    auto rail = Rail::Open(spec, link);
    if (!rail.ok()) return rail.status();
    rails.push_back(std::move(*rail));
  }
  return std::unique_ptr<Rails>(new Rails(std::move(rails)));
}

Rails::Rails(std::vector<std::unique_ptr<Rail>> rails)
    : rails_(std::move(rails)), stop_(eventfd(0, EFD_CLOEXEC)), watcher_([this] { Watch(); }) {}

Rails::~Rails() {
  eventfd_write(stop_.get(), 1);
  watcher_.join();
}

bool Rails::any_up() const {
  return std::any_of(rails_.begin(), rails_.end(), [](const auto& rail) { return rail->up(); });
}

void Rails::Drain() const {
  // First of all rails: the last to connect may give up queue pairs of the others.
  for (const auto& rail : rails_) rail->connector().Drain();
  for (const auto& rail : rails_) rail->disposer().Drain();
}

void Rails::Watch() {
  std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
  for (const auto& rail : rails_) fds.push_back({rail->context()->async_fd, POLLIN, 0});
  while (fds[0].revents == 0) {
    if (poll(fds.data(), fds.size(), kCheckMs) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < rails_.size(); ++i) {
      if (fds[i + 1].revents != 0) {
        rails_[i]->OnEvents();
      } else {
        rails_[i]->Check();
      }
    }
  }
}

}  // namespace peercache::rdma
