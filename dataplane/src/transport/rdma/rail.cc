#include "transport/rdma/rail.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

namespace peercache::rdma {
namespace {

// Some devices report that a port went down but not that it came back.
constexpr int kLookAgainMs = 500;

}  // namespace

Rail::Rail(RailSpec spec, LinkOptions link, const Verbs* verbs)
    : spec_(std::move(spec)), link_(link), verbs_(verbs) {}

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
  rail->ethernet_ = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  rail->max_message_bytes_ = port.max_msg_sz;
  rail->pd_.reset((*verbs)->alloc_pd(rail->context_.get()));
  if (!rail->pd_)
    return FromErrno(fmt::format("rail {}: allocating a protection domain", name), errno);
  const int fd = rail->context_->async_fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  rail->Refresh();
  return rail;
}

QueueAddress Rail::address() const {
  QueueAddress address;
  const uint64_t gid[2] = {gid_[0].load(std::memory_order_relaxed),
                           gid_[1].load(std::memory_order_relaxed)};
  std::memcpy(address.gid.data(), gid, sizeof(gid));
  address.network = spec_.network;
  address.lid = lid_.load(std::memory_order_relaxed);
  address.mtu = mtu_.load(std::memory_order_relaxed);
  address.ethernet = ethernet_;
  return address;
}

void Rail::Refresh() {
  if (dead_) return;
  ibv_port_attr port;
  if (const int e = verbs_->QueryPort(context_.get(), spec_.port, &port); e != 0) {
    SetUp(false, std::strerror(e));
    return;
  }
  ibv_gid gid{};
  if (const int e = verbs_->query_gid(context_.get(), spec_.port, spec_.gid_index, &gid);
      e != 0 && ethernet_) {
    SetUp(false, "its GID is gone: the network interface has lost its address");
    return;
  }
  uint64_t words[2];
  std::memcpy(words, gid.raw, sizeof(words));
  gid_[0].store(words[0], std::memory_order_relaxed);
  gid_[1].store(words[1], std::memory_order_relaxed);
  lid_.store(port.lid, std::memory_order_relaxed);
  mtu_.store(static_cast<uint8_t>(port.active_mtu), std::memory_order_relaxed);
  if (ethernet_ && words[0] == 0 && words[1] == 0) {
    SetUp(false, "its GID is empty: the network interface has lost its address");
    return;
  }
  SetUp(port.state == IBV_PORT_ACTIVE, verbs_->port_state_str(port.state));
}

void Rail::SetUp(bool up, const char* why) {
  if (up_.exchange(up, std::memory_order_acq_rel) == up) return;
  if (up) {
    spdlog::info("rail {}: up", name());
  } else {
    downs_.fetch_add(1, std::memory_order_relaxed);
    spdlog::warn("rail {}: down ({})", name(), why);
  }
}

void Rail::OnEvents() {
  ibv_async_event event;
  while (verbs_->get_async_event(context_.get(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    spdlog::debug("rail {}: event {}", name(), verbs_->event_type_str(type));
    verbs_->ack_async_event(&event);  // before a queue pair that it names is destroyed
    if (type == IBV_EVENT_DEVICE_FATAL && !dead_.exchange(true)) {
      SetUp(false, "the device has failed; restart this node when it is back");
    }
  }
  Refresh();
}

Rail::Stats Rail::stats() const { return {reads_, bytes_, failures_, downs_}; }

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
    if (poll(fds.data(), fds.size(), kLookAgainMs) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < rails_.size(); ++i) {
      if (fds[i + 1].revents != 0) {
        rails_[i]->OnEvents();
      } else {
        rails_[i]->Refresh();
      }
    }
  }
}

}  // namespace peercache::rdma
