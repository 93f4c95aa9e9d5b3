#include "transport/rdma/memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <numeric>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"
#include "transport/rdma/near.h"

namespace peercache::rdma {
namespace {

// Small enough that a large pool is pinned by several threads and shows progress, large enough that
// a terabyte has few keys. A multiple of every size of page.
constexpr uint64_t kUsualChunk = uint64_t{16} << 30;
constexpr uint64_t kChunkUnit = uint64_t{2} << 20;
// Pinning is bound by the kernel's page work; more threads than this contend for its locks.
constexpr size_t kThreads = 4;
// Helpers of all registrations under way. Engines share as many regions at once as they like, and
// each of its helpers is a thread that others cannot have.
constexpr size_t kMostHelpers = 12;
constexpr Duration kProgressEvery = std::chrono::seconds(5);
// Registered with all rails within some 50 ms.
constexpr uint64_t kAtOnce = uint64_t{64} << 20;
// The device may write what READs bring in any order (the attribute of PCI Express). Without it
// EPYC takes 150 of 200 Gb/s, and Emerald Rapids 16 of 40 GB/s (openucx/ucx 8062, 10955).
// The check of slots' headers stays safe: a completion still says that all bytes of its READ, and
// of those posted before it, are visible (ibv_reg_mr(3), ordering semantics). Nothing here looks at
// memory before that, and no two READs under way write the same bytes.
constexpr int kRelaxedOrdering = IBV_ACCESS_RELAXED_ORDERING;

// Up to `count` threads that each call `run` once; the destructor waits for them. There may be
// fewer to be had, or none: the caller then does their part of the work.
class Helpers {
 public:
  template <typename Run>
  Helpers(size_t count, const Run& run) {
    while (threads_.size() < count) {
      if (helping_.fetch_add(1) >= kMostHelpers) {
        --helping_;
        return;
      }
      auto thread = StartThread(run);
      if (!thread.ok()) {
        --helping_;
        spdlog::warn("{} of {} threads help to register memory: {}", threads_.size(), count,
                     thread.status().message());
        return;
      }
      threads_.push_back(std::move(*thread));
    }
  }
  ~Helpers() {
    for (std::thread& thread : threads_) thread.join();
    helping_ -= threads_.size();
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

 private:
  static inline std::atomic<size_t> helping_{0};
  std::vector<std::thread> threads_;
};

}  // namespace

uint64_t ChunkBytes(uint64_t bytes, uint64_t max_mr_size) {
  const uint64_t most = max_mr_size / kChunkUnit * kChunkUnit;
  uint64_t chunk = std::min(kUsualChunk, most);
  if (chunk == 0) return bytes <= max_mr_size ? bytes : 0;
  while (bytes / chunk >= kMaxPoolChunks && chunk < most) chunk = std::min(chunk * 2, most);
  return bytes / chunk >= kMaxPoolChunks ? 0 : chunk;
}

Status ExplainRegistration(const std::string& what, const std::string& rail, uint64_t bytes,
                           size_t rails, int error, const Memlock& memlock) {
  const Status failure = FromErrno(
      fmt::format("registering {} ({} MiB) with rail {}", what, bytes >> 20, rail), error);
  // EPERM: of a limit of 0.
  if (error == ENOMEM || error == EPERM) {
    if (const Status s = CheckMemlock(what, bytes, rails, memlock); !s.ok())
      return s.Annotate(failure.message());
  }
  if (error == ENOMEM) {
    return ResourceExhausted(
        fmt::format("{}: the device or the machine has no room: take a smaller pool, or raise the "
                    "device's limit of translation entries (log_num_mtt) or use huge pages",
                    failure.message()));
  }
  return failure;
}

Status ExplainDmaBuf(const std::string& what, const std::string& rail, int error, bool known) {
  const std::string doing = fmt::format("registering {} with rail {}", what, rail);
  if (!known) {
    return Unavailable(doing +
                       ": this libibverbs has no ibv_reg_dmabuf_mr: install rdma-core 34 "
                       "or later");
  }
  const Status failure = FromErrno(doing, error);
  switch (error) {
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case ENOSYS:
      return Unavailable(failure.message() +
                         ": the device's driver does not register dma-bufs: that takes Linux 5.12 "
                         "or later and a device such as a ConnectX-5 (peercached doctor, column "
                         "dmabuf)");
    default:
      return Unavailable(failure.message() +
                         ": the device cannot reach this memory: see the kernel's log (dmesg), and "
                         "that both are on PCIe switches that let them speak to each other");
  }
}

Result<std::shared_ptr<const Registration>> Registration::Make(const std::string& what,
                                                               std::span<std::byte> bytes,
                                                               const Rails& rails, For use,
                                                               std::shared_ptr<const void> keeper,
                                                               DmaBuf dma_buf, uint32_t wanted) {
  uint64_t max_mr_size = UINT64_MAX;
  std::vector<size_t> with;
  for (size_t i = 0; i < rails.size(); ++i) {
    if ((wanted >> i & 1) != 0) with.push_back(i);
    max_mr_size = std::min(max_mr_size, rails[i].max_mr_size());
  }
  static std::atomic<uint64_t> last_id{0};
  auto range = std::shared_ptr<Registration>(new Registration());
  range->id_ = ++last_id;
  range->what_ = what;
  range->use_ = use;
  range->keeper_ = std::move(keeper);
  range->bytes_ = bytes;
  range->dma_buf_ = dma_buf;
  range->chunk_bytes_ = ChunkBytes(bytes.size(), max_mr_size);
  if (range->chunk_bytes_ == 0 || bytes.empty()) {
    return InvalidArgument(
        fmt::format("{} of {} bytes cannot be registered: the devices take {} bytes at once", what,
                    bytes.size(), max_mr_size));
  }
  range->chunks_ = (bytes.size() + range->chunk_bytes_ - 1) / range->chunk_bytes_;
  range->keys_.resize(rails.size());
  if (Status s = range->AddKeys(rails, with); !s.ok()) return s;
  if (!dma_buf.device) range->FindNear(rails);
  return std::shared_ptr<const Registration>(std::move(range));
}

Result<std::shared_ptr<const Registration>> Registration::Anew(const Rails& rails,
                                                               size_t rail) const {
  auto range = std::shared_ptr<Registration>(new Registration(*this));
  range->keys_[rail] = nullptr;
  if (Status s = range->AddKeys(rails, std::span(&rail, 1)); !s.ok()) return s;
  return std::shared_ptr<const Registration>(std::move(range));
}

std::shared_ptr<const Registration> Registration::With(const Registration& other,
                                                       size_t rail) const {
  auto range = std::shared_ptr<Registration>(new Registration(*this));
  range->keys_[rail] = other.keys_[rail];
  return range;
}

Status Registration::AddKeys(const Rails& rails, std::span<const size_t> wanted) {
  struct Work {
    Rail* rail = nullptr;
    size_t index = 0;
    std::shared_ptr<Keys> keys;
    std::atomic<bool> gone{false};
  };
  std::vector<Work> works(wanted.size());
  size_t count = 0;
  for (const size_t index : wanted) {
    auto device = rails[index].device();
    if (!device) continue;
    Work& work = works[count++];
    work.rail = &rails[index];
    work.index = index;
    work.keys = std::shared_ptr<Keys>(
        new Keys{std::move(device), keeper_, {}}, [rail = work.rail](const Keys* keys) {
          rail->Dispose({.keeper = std::shared_ptr<const Keys>(keys)});
        });
    work.keys->mrs.resize(chunks_);
  }
  if (count == 0) return {};
  const auto locking = static_cast<size_t>(std::count_if(
      works.begin(), works.begin() + static_cast<ptrdiff_t>(count),
      [](const Work& work) { return !work.rail->PagesOnDemand(*work.keys->device); }));
  const Memlock memlock = ReadMemlock();

  const TimePoint start = Clock::now();
  const size_t parts = count * chunks_;
  std::atomic<size_t> next{0};
  struct alignas(8) Failure {  // one word, which atomics need no library for
    int error = 0;             // 0: none
    uint32_t part = 0;
  };
  std::atomic<Failure> failure{Failure{}};  // the first
  const auto run = [&](bool report) {
    TimePoint reported = start;
    for (size_t i; failure.load().error == 0 && (i = next.fetch_add(1)) < parts;) {
      Work& work = works[i / chunks_];
      if (rails.stopping()) work.gone = true;
      if (work.gone) continue;
      const DeviceContext& device = *work.keys->device;
      MrHandle& mr = work.keys->mrs[i % chunks_];
      mr = Register(*work.rail, device, i % chunks_);
      if (const int e = errno; !mr && device.Gone()) {
        work.gone = true;
      } else if (!mr) {
        Failure none;
        failure.compare_exchange_strong(none, {e == 0 ? EIO : e, static_cast<uint32_t>(i)});
      }
      if (const TimePoint now = Clock::now(); report && now - reported >= kProgressEvery) {
        reported = now;
        spdlog::info("registering {}: {} of {} parts", what_, i, parts);
      }
    }
  };
  {
    const Helpers helpers(std::min(kThreads, parts) - 1, [&run] { run(false); });
    run(true);
  }
  const auto [error, failed] = failure.load();
  if (error != 0 && dma_buf_.fd >= 0) {
    const Rail& rail = *works[failed / chunks_].rail;
    return ExplainDmaBuf(what_, rail.name(), error, rail.verbs().reg_dmabuf_mr != nullptr);
  }
  if (error != 0) {
    return ExplainRegistration(what_, works[failed / chunks_].rail->name(), bytes_.size(), locking,
                               error, memlock);
  }
  for (Work& work : std::span(works).first(count))
    if (!work.gone) keys_[work.index] = std::move(work.keys);
  spdlog::info("registered {}: {} MiB on {} rails in {} ms", what_, bytes_.size() >> 20, count,
               ToMillis(Clock::now() - start));
  return {};
}

std::span<std::byte> Registration::Chunk(size_t chunk) const {
  const size_t at = chunk * chunk_bytes_;
  return bytes_.subspan(at, std::min<size_t>(chunk_bytes_, bytes_.size() - at));
}

MrHandle Registration::Register(const Rail& rail, const DeviceContext& device, size_t chunk) const {
  const auto bytes = Chunk(chunk);
  const Verbs& verbs = *device.verbs;
  if (dma_buf_.fd >= 0 && verbs.reg_dmabuf_mr == nullptr) {
    errno = 0;
    return nullptr;
  }
  int wanted = IBV_ACCESS_LOCAL_WRITE;
  if (use_ == For::kRemoteRead) wanted |= IBV_ACCESS_REMOTE_READ;
  if (dma_buf_.fd < 0 && !dma_buf_.device && rail.PagesOnDemand(device))
    wanted |= IBV_ACCESS_ON_DEMAND;
  const auto address = reinterpret_cast<uint64_t>(bytes.data());
  const auto reg = [&](int access) {
    errno = 0;
    if (dma_buf_.fd >= 0) {
      return MrHandle(verbs.reg_dmabuf_mr(device.pd.get(), dma_buf_.offset + chunk * chunk_bytes_,
                                          bytes.size(), address, dma_buf_.fd, access));
    }
    if ((access & kRelaxedOrdering) == 0)
      return MrHandle(verbs.reg_mr(device.pd.get(), bytes.data(), bytes.size(), access));
    return MrHandle(verbs.reg_mr_iova2(device.pd.get(), bytes.data(), bytes.size(), address,
                                       static_cast<unsigned>(access)));
  };
  if (!rail.OrdersRelaxed()) return reg(wanted);
  MrHandle mr = reg(wanted | kRelaxedOrdering);
  // libibverbs takes the flag away where the kernel does not know it, but for no dma-buf; and some
  // kernels' soft-RoCE does not know it although the kernel does.
  if (mr || (errno != EINVAL && errno != EOPNOTSUPP)) return mr;
  mr = reg(wanted);
  if (mr) rail.NoteStrict(dma_buf_.fd >= 0);
  return mr;
}

bool Registration::known() const {
  return std::any_of(keys_.begin(), keys_.end(), [](const auto& keys) { return keys != nullptr; });
}

// Afterwards, since registering brings the pages in.
void Registration::FindNear(const Rails& rails) {
  std::vector<int> nodes;
  for (const auto& rail : rails.all()) nodes.push_back(rail->spec().numa_node);
  far_ = FarRails(nodes, [this](int node) { return SampleTouched(bytes_, node); });
}

void RegisteredMemory::Add(std::shared_ptr<const Registration> range) {
  std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Ranges>(*ranges_);
  const auto at = std::upper_bound(
      changed->begin(), changed->end(), range->bytes().data(),
      [](const std::byte* address, const auto& known) { return address < known->bytes().data(); });
  changed->insert(at, std::move(range));
  ranges_ = std::move(changed);
}

void RegisteredMemory::Remove(uint64_t id) {
  std::shared_ptr<const Ranges> old;  // its end takes long: not under the lock
  std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Ranges>(*ranges_);
  std::erase_if(*changed, [&](const auto& known) { return known->id() == id; });
  old = std::exchange(ranges_, std::move(changed));
}

bool RegisteredMemory::Replace(const Registration* old, size_t rail,
                               std::shared_ptr<const Registration> range) {
  std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Ranges>(*ranges_);
  const auto at = std::find_if(changed->begin(), changed->end(),
                               [&](const auto& known) { return known->id() == old->id(); });
  if (at == changed->end() || (*at)->KnownTo(rail) != old->KnownTo(rail)) return false;
  *at = at->get() == old ? std::move(range) : (*at)->With(*range, rail);
  ranges_ = std::move(changed);
  return true;
}

// A device that is opened anew while a range is added is seen here or by whoever renews all.
Result<uint64_t> RegisteredMemory::Register(const std::string& what, std::span<std::byte> bytes,
                                            const Rails& rails, Registration::For use,
                                            std::shared_ptr<const void> keeper,
                                            Registration::DmaBuf dma_buf) {
  uint32_t first = ~0u;
  if (use == Registration::For::kLocalWrite && !dma_buf.device && bytes.size() > kAtOnce) {
    for (size_t i = 0; i < rails.size() && first == ~0u; ++i)
      if (rails[i].up() && rails[i].device()) first = 1u << i;
  }
  auto made = Registration::Make(what, bytes, rails, use, std::move(keeper), dma_buf, first);
  if (!made.ok()) return made.status();
  const std::shared_ptr<const Registration> range = std::move(*made);
  Add(range);
  RenewAll(rails, *range);
  return range->id();
}

void RegisteredMemory::RenewAll(const Rails& rails, const Registration& range) {
  std::vector<size_t> order(rails.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t rail) { return range.IsNear(rail); });
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i; (i = next.fetch_add(1)) < order.size();) {
      if (Status s = Renew(rails, order[i], range.id()); !s.ok()) spdlog::warn("{}", s.message());
    }
  };
  // Of a range in chunks, each rail's are registered by several threads already.
  const size_t left =
      static_cast<size_t>(std::count_if(order.begin(), order.end(), [&](size_t rail) {
        return range.KnownTo(rail) != rails[rail].device().get();
      }));
  const size_t useful = std::min(left, kThreads / std::min(kThreads, range.chunks()));
  const Helpers helpers(useful == 0 ? 0 : useful - 1, run);
  run();
}

Status RegisteredMemory::Renew(const Rails& rails, size_t rail) {
  const auto all = ranges();
  // What peers read comes first: without it the rail is of no use, and the others' is left alone.
  for (const auto use : {Registration::For::kRemoteRead, Registration::For::kLocalWrite}) {
    for (const auto& range : *all) {
      if (range->use() != use) continue;
      const Status s = Renew(rails, rail, range->id());
      if (s.ok()) continue;
      if (use == Registration::For::kRemoteRead) return s;
      spdlog::warn("pages of {} are not read over this rail: {}", range->what(), s.message());
    }
  }
  return {};
}

Status RegisteredMemory::Renew(const Rails& rails, size_t rail, uint64_t id) {
  for (;;) {
    const auto known = Of(id);
    if (!known || known->KnownTo(rail) == rails[rail].device().get()) return {};
    auto renewed = known->Anew(rails, rail);
    if (!renewed.ok()) return renewed.status();
    // A device that has just failed is as good as none; its rail will find out.
    const bool done = (*renewed)->KnownTo(rail) == nullptr;
    if (Replace(known.get(), rail, std::move(*renewed)) && done) return {};
  }
}

Status RegisteredMemory::Rekey(const Rails& rails, uint64_t id,
                               std::shared_ptr<const Registration>* former) {
  *former = Of(id);
  Status status;
  for (size_t rail = 0; rail < rails.size(); ++rail) {
    const auto known = Of(id);
    // A device that was opened anew since then has other keys by that.
    if (!known || !known->KnownTo(rail) || known->KnownTo(rail) != (*former)->KnownTo(rail))
      continue;
    auto rekeyed = known->Anew(rails, rail);
    if (!rekeyed.ok()) {
      status = rekeyed.status();
    } else {
      Replace(known.get(), rail, std::move(*rekeyed));
    }
  }
  return status;
}

std::shared_ptr<const Registration> RegisteredMemory::Of(uint64_t id) const {
  const auto all = ranges();
  const auto at =
      std::find_if(all->begin(), all->end(), [&](const auto& known) { return known->id() == id; });
  return at == all->end() ? nullptr : *at;
}

std::shared_ptr<const RegisteredMemory::Ranges> RegisteredMemory::ranges() const {
  std::lock_guard lock(mutex_);
  return ranges_;
}

bool RegisteredMemory::Known(uint64_t id) const {
  const auto range = Of(id);
  return range && range->known();
}

const Registration* RegisteredMemory::Find(const Ranges& ranges, std::span<const std::byte> bytes) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), bytes.data(),
      [](const std::byte* address, const auto& known) { return address < known->bytes().data(); });
  if (after == ranges.begin()) return nullptr;
  const Registration* range = std::prev(after)->get();
  const auto offset = static_cast<size_t>(bytes.data() - range->bytes().data());
  return offset <= range->bytes().size() && bytes.size() <= range->bytes().size() - offset
             ? range
             : nullptr;
}

}  // namespace peercache::rdma
