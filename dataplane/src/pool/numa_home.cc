#include "pool/numa_home.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <set>
#include <utility>

#include "base/cpu_list.h"
#include "base/numa_maps.h"

namespace peercache {
namespace {

std::string Names(std::span<const NumaRail> rails) {
  std::vector<std::string> names;
  for (const NumaRail& rail : rails) names.push_back(rail.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<int> ParseNumaOption(const std::string& text) {
  if (text == "auto") return kNumaAuto;
  if (text == "off") return kNumaOff;
  constexpr int kMostNodes = 1024;
  int node = -1;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, node);
  if (error == std::errc() && rest == end && node >= 0 && node < kMostNodes) return node;
  return InvalidArgument(
      fmt::format("\"{}\" is none of auto, off, or the number of a NUMA node (see "
                  "/sys/devices/system/node)",
                  text));
}

NumaWish ChooseNumaNode(int option, std::span<const NumaRail> rails) {
  if (option == kNumaOff) return {-1, "numa-node is off"};
  if (option >= 0) return {option, fmt::format("numa-node is {}", option)};
  if (rails.empty()) return {-1, "there are no rails to be near to"};
  std::set<int> nodes;
  for (const NumaRail& rail : rails)
    if (rail.numa_node >= 0) nodes.insert(rail.numa_node);
  if (nodes.empty()) return {-1, fmt::format("the NUMA node of {} is not known", Names(rails))};
  if (nodes.size() > 1) {
    return {-1, fmt::format("{} are on NUMA nodes {}; one group per NUMA node keeps reads near, or "
                            "numa-node names one",
                            Names(rails), fmt::join(nodes, ", "))};
  }
  return {*nodes.begin(), fmt::format("that of {}", Names(rails))};
}

NumaHome::NumaHome(NumaWish wish)
    : wish_(std::move(wish)), plan_(PlanNuma(wish_.node, ReadNumaNodes(), AllowedCpus())) {}

void NumaHome::Settled(const Status& pinned, const MappedRegion& pool) {
  pool_ = &pool;
  if (!pinned.ok()) {
    plan_.cpus.clear();
    plan_.threads_why = pinned.message();
  }
  memory_ = pool.numa();
  if (plan_.memory_node < 0) memory_.why = plan_.memory_why;
  if (wish_.node < 0) {
    spdlog::info("NUMA: threads and pool are anywhere: {}", wish_.why);
    return;
  }
  const bool near = !plan_.cpus.empty() && memory_.memory == NumaMemory::kBound;
  spdlog::log(near ? spdlog::level::info : spdlog::level::warn,
              "NUMA node {} ({}): threads {}: {}; pool {}: {}", wish_.node, wish_.why,
              plan_.cpus.empty() ? "anywhere" : "pinned", plan_.threads_why,
              NumaMemoryName(memory_.memory), memory_.why);
}

void NumaHome::Touched(const MappedRegion& pool) {
  if (SampleNuma(pool.bytes(), pool.page_size(), wish_.node).source != NumaSource::kRefused) return;
  const NumaSample sample = ReadNumaMaps(pool.bytes(), wish_.node);
  // Nobody looks again at pages that are not there now.
  if (!sample.known() || sample.absent > 0) return;
  spdlog::log(sample.elsewhere > 0 ? spdlog::level::warn : spdlog::level::info,
              "NUMA node {}: {} of {} parts of the pool are elsewhere, according to numa_maps",
              wish_.node, sample.elsewhere, sample.elsewhere + sample.on_node);
  std::lock_guard lock(touch_->mutex);
  touch_->sample = sample;
}

NumaStats NumaHome::stats() const {
  NumaStats stats{wish_, plan_.cpus, plan_.threads_why, memory_, {}};
  if (pool_ != nullptr) stats.pool = SampleNuma(pool_->bytes(), pool_->page_size(), wish_.node);
  if (stats.pool.source != NumaSource::kRefused) return stats;
  std::lock_guard lock(touch_->mutex);
  if (touch_->sample.known()) stats.pool = touch_->sample;
  return stats;
}

}  // namespace peercache
