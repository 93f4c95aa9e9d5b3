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
// A device that fails again sooner is opened anew at intervals that go on growing.
constexpr Duration kSettled = std::chrono::minutes(1);
constexpr char kOpenedAnew[] =
    "; it is opened again as soon as that works: see the kernel's log (dmesg) and `rdma link show`";

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
  auto device = DeviceContext::Open(rail->spec_.device, rail->spec_.port);
  if (!device.ok()) return device.status().Annotate(fmt::format("rail {}", rail->name()));
  rail->Take(std::move(*device));
  rail->Look();
  return rail;
}

std::shared_ptr<const DeviceContext> Rail::device() const {
  std::lock_guard lock(mutex_);
  return device_;
}

std::string Rail::memory() const {
  const auto device = this->device();
  if (!device || !link_.on_demand_paging) return "locked";
  return PagesOnDemand(*device) ? "on demand" : "locked: " + device->on_demand_paging.message();
}

std::string Rail::ordering() const {
  if (OrdersRelaxed()) {
    if (strict_memory_.load(std::memory_order_relaxed))
      return "strict: the device's driver refuses relaxed ordering";
    if (strict_dma_bufs_.load(std::memory_order_relaxed))
      return "relaxed, but strict for dma-bufs: the device's driver refuses relaxed ordering there";
    return "relaxed";
  }
  return link_.relaxed_ordering ? "strict: this libibverbs has no ibv_reg_mr_iova2: install "
                                  "rdma-core 28 or later"
                                : "strict";
}

void Rail::Take(std::shared_ptr<DeviceContext> device) {
  if (device && link_.on_demand_paging && !PagesOnDemand(*device)) {
    spdlog::warn(
        "rail {}: memory is locked although rdma-odp is on: device {}: {}; turn rdma-odp off, or "
        "name other devices (device-name)",
        name(), spec_.device, device->on_demand_paging.message());
  }
  std::lock_guard lock(mutex_);
  if (device) max_mr_size_ = device->limits.max_mr_size;
  if (device_) device_->failed = true;
  device_.swap(device);  // closing takes a system call: not under the lock
}

Status Rail::DoFollow() {
  Follow follow;
  {
    std::lock_guard lock(mutex_);
    follow = follow_;
  }
  return follow ? follow() : Status();
}

RailLook Rail::Seen(const DeviceContext& device) const {
  ibv_port_attr attributes;
  if (const int e = verbs_->QueryPort(device.context.get(), spec_.port, &attributes); e != 0)
    return {FromErrno(fmt::format("asking for port {}", spec_.port), e), WaitsFor::kDevice};
  Device found = ReadDevice(SystemSources(), spec_.device);
  const auto port = std::find_if(found.ports.begin(), found.ports.end(),
                                 [this](const Port& p) { return p.number == spec_.port; });
  if (port == found.ports.end())
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
  const auto device = this->device();
  RailLook look = Seen(*device);
  // Only then: all that is registered with it would have to be registered again.
  if (look.waits_for == WaitsFor::kDevice && device->Gone()) {
    Fail(look.address.status().message());
  } else {
    state_.See(std::move(look));
  }
}

bool Rail::Unchanged(const DeviceContext& device) const {
  ibv_port_attr port;
  if (verbs_->QueryPort(device.context.get(), spec_.port, &port) != 0) return false;
  const bool active = port.state == IBV_PORT_ACTIVE;
  if (!up()) return active == (state_.waits().what != WaitsFor::kPort);
  const RailAddress address = state_.address();
  if (!active || port.lid != address.lid || port.active_mtu != address.mtu) return false;
  ibv_gid gid{};
  if (verbs_->query_gid(device.context.get(), spec_.port, static_cast<int>(address.gid.index),
                        &gid) != 0)
    return false;
  return std::equal(address.gid.address.begin(), address.gid.address.end(), gid.raw);
}

void Rail::Check() {
  const TimePoint now = Clock::now();
  if (reopened_.valid()) {
    if (reopened_.wait_for(Duration::zero()) != std::future_status::ready) return;
    const Status s = reopened_.get();
    if (s.ok() && device()) {
      opened_ = now;
      spdlog::info("rail {}: its device is open again", name());
      Look();
      return;
    }
    health_.Failed(now);
    if (!s.ok()) state_.See({s, WaitsFor::kDevice});
  }
  const auto device = this->device();
  if (!device) {
    if (health_.Allows(now)) reopened_ = connector_.Do([this] { return Reopen(); });
    return;
  }
  if (now - opened_ >= kSettled) health_.Succeeded();
  const bool due = now - looked_ >= (up() ? kLookEveryWhenUp : kLookEvery);
  // What an engine's memory was refused may be had now.
  if (due && up()) connector_.Do([this] { return DoFollow(); });
  if (due || !Unchanged(*device)) Look();
}

void Rail::Fail(const std::string& why) {
  device_failures_.fetch_add(1, std::memory_order_relaxed);
  state_.See({Unavailable(why + kOpenedAnew), WaitsFor::kDevice});
  Take(nullptr);
  health_.Failed(Clock::now());
  // What was registered with it is given up now, not when it is back.
  connector_.Do([this] { return DoFollow(); });
}

void Rail::Dispose(Remains remains) {
  disposer_.Do([remains = std::move(remains)] { return Status(); });
}

Status Rail::Reopen() {
  auto device = DeviceContext::Open(spec_.device, spec_.port);
  if (!device.ok()) return Unavailable(device.status().message() + kOpenedAnew);
  Take(std::move(*device));
  Status s = DoFollow();
  if (s.ok()) return s;
  Take(nullptr);
  (void)DoFollow();
  return Unavailable(s.message() + kOpenedAnew);
}

void Rail::OnEvents(const DeviceContext& device) {
  if (&device != this->device().get()) return Check();  // it was given up already
  bool look = false, failed = false;
  ibv_async_event event;
  while (verbs_->get_async_event(device.context.get(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    spdlog::debug("rail {}: event {}", name(), verbs_->event_type_str(type));
    verbs_->ack_async_event(&event);  // before a queue pair that it names is destroyed
    look = look || IsOfPort(type);
    failed = failed || type == IBV_EVENT_DEVICE_FATAL;
  }
  // After the event, if there is one, of a device that was taken away.
  failed = failed || IsGone(errno);
  if (failed) {
    Fail("its device has failed");
  } else if (look && !reopened_.valid()) {
    Look();
  } else {
    Check();
  }
}

Rail::Stats Rail::stats() const {
  return {reads_, bytes_, failures_, state_.downs(), device_failures_, state_.address_changes()};
}

// ---- Rails -------------------------------------------------------------------------------------

Result<std::unique_ptr<Rails>> Rails::Open(std::span<const RailSpec> specs, LinkOptions link) {
  std::vector<std::unique_ptr<Rail>> rails;
  specs = specs.first(std::min(specs.size(), kMaxRails));
  for (RailSpec spec : specs) {
    if (link.queues > 0) spec.queues = link.queues;
    spec.queues = std::min(spec.queues, static_cast<uint32_t>(kMaxQueues / specs.size()));
    auto rail = Rail::Open(std::move(spec), link);
    if (!rail.ok()) return rail.status();
    rails.push_back(std::move(*rail));
  }
  return std::unique_ptr<Rails>(new Rails(std::move(rails)));
}

Rails::Rails(std::vector<std::unique_ptr<Rail>> rails)
    : rails_(std::move(rails)), stop_(eventfd(0, EFD_CLOEXEC)), watcher_([this] { Watch(); }) {}

Rails::~Rails() { Stop(); }

void Rails::Stop() {
  stopping_ = true;
  if (!watcher_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  watcher_.join();
  for (const auto& rail : rails_) rail->connector().Drain();
}

void Rails::OnDeviceChange(const std::function<Status(size_t)>& follow) {
  for (size_t i = 0; i < rails_.size(); ++i) {
    std::lock_guard lock(rails_[i]->mutex_);
    rails_[i]->follow_ = [follow, i] { return follow(i); };
  }
}

bool Rails::any_up() const {
  return std::any_of(rails_.begin(), rails_.end(), [](const auto& rail) { return rail->up(); });
}

uint32_t Rails::queues() const {
  uint32_t queues = 0;
  for (const auto& rail : rails_) queues += rail->queues();
  return queues;
}

size_t Rails::locking() const {
  return static_cast<size_t>(std::count_if(rails_.begin(), rails_.end(), [](const auto& rail) {
    const auto device = rail->device();
    return device && !rail->PagesOnDemand(*device);
  }));
}

void Rails::Drain() const {
  // First of all rails: the last to connect may give up queue pairs of the others.
  for (const auto& rail : rails_) rail->connector().Drain();
  for (const auto& rail : rails_) rail->disposer_.Drain();
}

void Rails::Watch() {
  for (;;) {
    // One that has failed says so without end: only what is in use is listened to.
    std::vector<std::shared_ptr<const DeviceContext>> devices;
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
    for (const auto& rail : rails_) {
      devices.push_back(rail->device());
      fds.push_back({devices.back() ? devices.back()->context->async_fd : -1, POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), kCheckMs) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < rails_.size(); ++i) {
      if (fds[i + 1].revents != 0) {
        rails_[i]->OnEvents(*devices[i]);
      } else {
        rails_[i]->Check();
      }
    }
  }
}

}  // namespace peercache::rdma
