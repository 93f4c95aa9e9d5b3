#include "transport/rdma/memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "base/numa_memory.h"

namespace peercache::rdma {
namespace {

// Small enough that a large pool is pinned by several threads and shows progress, large enough that
// a terabyte has few keys. A multiple of every size of page.
constexpr uint64_t kUsualChunk = uint64_t{16} << 30;
constexpr size_t kBasePage = 4096;
constexpr uint64_t kChunkUnit = uint64_t{2} << 20;
// Pinning is bound by the kernel's page work; more threads than this contend for its locks.
constexpr size_t kThreads = 4;
constexpr Duration kProgressEvery = std::chrono::seconds(5);

}  // namespace

uint64_t ChunkBytes(uint64_t bytes, uint64_t max_mr_size) {
  const uint64_t most = max_mr_size / kChunkUnit * kChunkUnit;
  uint64_t chunk = std::min(kUsualChunk, most);
  if (chunk == 0) return bytes <= max_mr_size ? bytes : 0;
  while (bytes / chunk >= kMaxPoolChunks && chunk < most) chunk = std::min(chunk * 2, most);
  return bytes / chunk >= kMaxPoolChunks ? 0 : chunk;
}

Status ExplainRegistration(const std::string& what, const std::string& rail, uint64_t bytes,
                           int error, uint64_t memlock, bool root) {
  const Status failure = FromErrno(
      fmt::format("registering {} ({} MiB) with rail {}", what, bytes >> 20, rail), error);
  if (error == ENOMEM && !root && memlock < bytes) {
    return ResourceExhausted(fmt::format(
        "{}: this process may lock {} MiB (memlock): raise the limit of the container runtime "
        "(LimitMEMLOCK=infinity for containerd, --ulimit memlock=-1) or run as root with the "
        "capability IPC_LOCK; the capability alone does nothing for another user",
        failure.message(), memlock >> 20));
  }
  if (error == ENOMEM) {
    return ResourceExhausted(
        fmt::format("{}: the device or the machine has no room: take a smaller pool, or raise the "
                    "device's limit of translation entries (log_num_mtt) or use huge pages",
                    failure.message()));
  }
  return failure;
}

Result<std::shared_ptr<const Registration>> Registration::Make(const std::string& what,
                                                               std::span<std::byte> bytes,
                                                               const Rails& rails, For use,
                                                               std::shared_ptr<const void> keeper) {
  uint64_t max_mr_size = UINT64_MAX;
  for (const auto& rail : rails.all())
    max_mr_size = std::min<uint64_t>(max_mr_size, rail->limits().max_mr_size);
  auto range = std::shared_ptr<Registration>(new Registration());
  range->keeper_ = std::move(keeper);
  range->bytes_ = bytes;
  range->chunk_bytes_ = ChunkBytes(bytes.size(), max_mr_size);
  if (range->chunk_bytes_ == 0 || bytes.empty()) {
    return InvalidArgument(
        fmt::format("{} of {} bytes cannot be registered: the devices take {} bytes at once", what,
                    bytes.size(), max_mr_size));
  }
  range->chunks_ = (bytes.size() + range->chunk_bytes_ - 1) / range->chunk_bytes_;
  range->mrs_.resize(rails.size() * range->chunks_);

  const int access =
      IBV_ACCESS_LOCAL_WRITE | (use == For::kRemoteRead ? IBV_ACCESS_REMOTE_READ : 0);
  const TimePoint start = Clock::now();
  std::atomic<size_t> next{0};
  std::atomic<int> error{0};
  std::atomic<size_t> failed{0};
  const auto work = [&](bool report) {
    TimePoint reported = start;
    for (size_t i; error == 0 && (i = next.fetch_add(1)) < range->mrs_.size();) {
      Rail& rail = rails[i / range->chunks_];
      const size_t offset = i % range->chunks_ * range->chunk_bytes_;
      const auto chunk =
          bytes.subspan(offset, std::min<size_t>(range->chunk_bytes_, bytes.size() - offset));
      range->mrs_[i].reset(rail.verbs().reg_mr(rail.pd(), chunk.data(), chunk.size(), access));
      if (!range->mrs_[i]) {
        failed = i;
        error = errno == 0 ? EIO : errno;
      }
      if (const TimePoint now = Clock::now(); report && now - reported >= kProgressEvery) {
        reported = now;
        spdlog::info("registering {}: {} of {} parts", what, i, range->mrs_.size());
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t i = 1; i < std::min(kThreads, range->mrs_.size()); ++i)
      helpers.emplace_back([&work] { work(false); });
    work(true);
  }
  if (error != 0) {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return ExplainRegistration(what, rails[failed / range->chunks_].name(), bytes.size(), error,
                               limit.rlim_cur, geteuid() == 0);
  }
  range->FindNear(rails);
  spdlog::info("registered {}: {} MiB on {} rails in {} ms", what, bytes.size() >> 20, rails.size(),
               ToMillis(Clock::now() - start));
  return std::shared_ptr<const Registration>(std::move(range));
}

// Afterwards, since registering brings the pages in.
void Registration::FindNear(const Rails& rails) {
  bool any_near = false;
  std::vector<bool> far(rails.size());
  for (size_t i = 0; i < rails.size(); ++i) {
    const int node = rails[i].spec().numa_node;
    if (node < 0) continue;
    const NumaSample sample = SampleNuma(bytes_, kBasePage, node);
    const bool near = sample.on_node >= sample.elsewhere;
    any_near |= sample.known && near;
    far[i] = sample.known && !near;
  }
  if (any_near) far_ = std::move(far);
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

void RegisteredMemory::Remove(const Registration* range) {
  std::shared_ptr<const Ranges> old;  // deregistering takes long: not under the lock
  std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Ranges>(*ranges_);
  std::erase_if(*changed, [&](const auto& known) { return known.get() == range; });
  old = std::exchange(ranges_, std::move(changed));
}

std::shared_ptr<const RegisteredMemory::Ranges> RegisteredMemory::ranges() const {
  std::lock_guard lock(mutex_);
  return ranges_;
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
