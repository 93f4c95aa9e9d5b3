#include "engine_memory.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/wrong_bytes.h"

namespace peercache::perf {
namespace {

Result<MappedRegion> OpenMemory(const std::string& path, size_t bytes) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return FromErrno(fmt::format("opening {} (--host-pool)", path), errno);
  return MappedRegion::Map(std::move(fd), bytes, MapAccess::kReadWrite);
}

}  // namespace

Result<MappedRegion> WrittenMemory(const char* name, size_t bytes, HugePages huge_pages) {
  const size_t whole = (bytes + (size_t{2} << 20) - 1) >> 21 << 21;
  auto memory = MappedRegion::Create(name, whole, huge_pages);
  if (memory.ok()) std::memset(memory->data(), 1, memory->size());
  return memory;
}

Result<EngineMemory> EngineMemory::Create(const Shape& shape) {
  if (shape.segments == 0 || shape.page_bytes % (8 * shape.segments) != 0) {
    return InvalidArgument(
        fmt::format("a page of {} bytes cannot be cut into {} segments of "
                    "8-byte words; choose a multiple",
                    shape.page_bytes, shape.segments));
  }
  EngineMemory memory;
  memory.shape_ = shape;
  memory.shape_.window = std::max(shape.window / shape.threads, shape.batch) * shape.threads;
  const size_t bytes = memory.shape_.window * shape.page_bytes;
  if (shape.gpu) {
    auto gpu = GpuMemory::Create(bytes);
    if (!gpu.ok()) return gpu.status();
    memory.gpu_ = std::move(*gpu);
    return memory;
  }
  auto host = shape.host_pool.empty() ? WrittenMemory("host-pool", bytes, shape.huge_pages)
                                      : OpenMemory(shape.host_pool, bytes);
  if (!host.ok()) return host.status();
  memory.host_ = std::move(*host);
  return memory;
}

Status EngineMemory::Share(Client* client) const {
  if (!gpu_) return client->RegisterRegion(host_.fd(), host_.data(), host_.size());
  const auto ways = client->RegisterDmaBuf(gpu_->dma_buf(), gpu_->address(), gpu_->size());
  if (!ways.ok()) return ways.status();
  if (!ways->missing.empty()) {
    fmt::print(stderr, "peercache-perf: pages come into the GPU by {} alone: {}\n",
               ways->rdma ? "READs" : "copies", ways->missing);
  }
  return {};
}

uint64_t EngineMemory::AddressOf(size_t at, size_t s) const {
  const uint64_t begin = gpu_ ? gpu_->address() : reinterpret_cast<uint64_t>(host_.data());
  return begin + (s * shape_.window + at) * segment_bytes();
}

void EngineMemory::SegmentsOf(size_t at, std::span<Segment> segments) const {
  for (size_t s = 0; s < segments.size(); ++s) segments[s] = {AddressOf(at, s), segment_bytes()};
}

void EngineMemory::Fill(size_t at, uint64_t number) {
  std::vector<std::byte> page(shape_.page_bytes);
  FillPage(number, page);
  const size_t each = segment_bytes();
  for (size_t s = 0; s < shape_.segments; ++s)
    std::memcpy(reinterpret_cast<void*>(AddressOf(at, s)), page.data() + s * each, each);
}

bool EngineMemory::Check(size_t at, uint64_t number) const {
  std::vector<std::byte> page(shape_.page_bytes), want(shape_.page_bytes);
  const size_t each = segment_bytes();
  for (size_t s = 0; s < shape_.segments; ++s) {
    const auto to = std::span(page).subspan(s * each, each);
    if (!gpu_) {
      std::memcpy(to.data(), reinterpret_cast<const void*>(AddressOf(at, s)), each);
    } else if (Status read = gpu_->Read(AddressOf(at, s), to); !read.ok()) {
      fmt::print(stderr, "peercache-perf: {}\n", read.ToString());
      return false;
    }
  }
  FillPage(number, want);
  return HasRightBytes(fmt::format("page {}", number), page, want);
}

}  // namespace peercache::perf
