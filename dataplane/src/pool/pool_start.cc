// How a pool begins: new memory, or that of the process before.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/divide.h"
#include "base/size.h"
#include "pool/adoption.h"
#include "pool/pool_impl.h"

namespace peercache {
namespace {

// Losing part of a chunk is under 2 % of a pool with at least 64 of them, but may be all of a small
// one.
size_t RoundToChunks(size_t bytes) {
  const size_t chunk = SlotTable::ChunkBytes(bytes);
  return (bytes < 64 * chunk ? bytes + chunk - 1 : bytes) / chunk * chunk;
}

size_t WholePages(size_t bytes, HugePages pages) {
  const size_t page = pages == HugePages::kOff   ? SmallPageSize()
                      : pages == HugePages::k1Gi ? size_t{1} << 30
                                                 : size_t{2} << 20;
  return DivideUp(bytes, page) * page;
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::Create(const PoolOptions& options) {
  if (options.bytes == 0)
    return InvalidArgument("pool: size 0 holds no page; choose a size, e.g. 4Gi");
  if (options.max_page_bytes == 0 || options.max_page_bytes > UINT32_MAX)
    return InvalidArgument(
        fmt::format("pool: largest page {} is not between 1 and {}; choose e.g. "
                    "64Mi",
                    FormatSize(options.max_page_bytes), UINT32_MAX));
  const size_t beside = options.beside == 0 ? 0 : WholePages(options.beside, options.huge_pages);
  if (beside >= options.bytes)
    return InvalidArgument(fmt::format(
        "pool: size {} leaves nothing for pages after {} for the directory; choose a larger size",
        FormatSize(options.bytes), FormatSize(beside)));
  // The table of states takes less than one of 4096.
  const size_t states = options.file.path.empty() ? 0 : options.bytes / 4096 + PoolFile::kTailBytes;
  const size_t bytes = RoundToChunks(options.bytes - std::min(beside + states, options.bytes - 1));
  size_t max_page = std::min(options.max_page_bytes, bytes - kPageAlignment);
  SizeClass largest = SizeClassOf(max_page);
  while (SlotBytes(largest) > bytes) --largest;
  max_page = std::min(max_page, PayloadBytes(largest));
  if (!options.file.path.empty()) return OfFile(options, bytes, beside, max_page);
  Result<MappedRegion> memory =
      MappedRegion::Create("peercache-pool", bytes + beside, options.huge_pages, options.numa_node);
  if (!memory.ok()) return memory.status();
  spdlog::info("pool of {} in {} pages, chunks of {}, largest page {}", FormatSize(bytes),
               FormatSize(memory->page_size()), FormatSize(SlotTable::ChunkBytes(bytes)),
               FormatSize(max_page));
  auto pool = std::unique_ptr<Pool>(new Pool(std::make_unique<Impl>(
      std::move(memory).value(), nullptr, StateTable(), bytes, max_page, options.eviction)));
  if (options.generations != nullptr) pool->impl_->generations = options.generations;
  return pool;
}

Result<std::unique_ptr<Pool>> Pool::OfFile(const PoolOptions& options, size_t bytes, size_t beside,
                                           size_t max_page) {
  const size_t chunk = SlotTable::ChunkBytes(bytes);
  auto opened = PoolFile::Open(options.file, {bytes, beside, max_page}, options.huge_pages,
                               options.numa_node);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<PoolFile> file = std::move(*opened);
  std::vector<StateTable::SpanAt> spans;
  if (file->start() == PoolStart::kAdopted) {
    const StateTable was(file->states(), bytes / chunk, chunk);
    if (auto found = was.Spans(SizeClassOf(max_page)); found.ok()) {
      spans = std::move(*found);
    } else if (Status s = file->Damaged(found.status().message()); !s.ok()) {
      return s;
    }
  }
  const StateTable states(file->states(), bytes / chunk, chunk);
  MappedRegion memory = file->TakePages();
  auto pool = std::unique_ptr<Pool>(new Pool(std::make_unique<Impl>(
      std::move(memory), std::move(file), states, bytes, max_page, options.eviction)));
  Impl& impl = *pool->impl_;
  impl.adoption.start = impl.file->start();
  impl.adoption.why = impl.file->why();
  if (options.generations != nullptr) impl.generations = options.generations;
  impl.generation_limit = impl.file->generation_limit();
  impl.generations->RaiseTo(impl.generation_limit);
  AdoptPages(
      spans, impl.generation_limit, impl.memory, &impl.table,
      [&](Slot* slot) { return impl.Keep(slot); }, &impl.adoption);
  if (impl.adoption.start == PoolStart::kAdopted) {  // model: Adopt, rest_adopted
    std::ranges::fill(pool->beside(), std::byte{});  // that is of the former process
    if (impl.file->rest() > Duration{}) impl.rests_until = Clock::now() + impl.file->rest();
  }
  LogStart(*impl.file, bytes, impl.memory.page_size(), impl.adoption);
  return pool;
}

}  // namespace peercache
