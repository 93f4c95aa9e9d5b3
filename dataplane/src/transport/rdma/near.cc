#include "transport/rdma/near.h"

#include <algorithm>
#include <map>

#include "base/memory.h"
#include "base/numa_maps.h"

namespace peercache::rdma {

std::vector<bool> FarRails(std::span<const int> rails,
                           const std::function<NumaSample(int node)>& sample) {
  std::map<int, NumaSample> nodes;
  for (const int node : rails) nodes.try_emplace(node);
  if (nodes.size() < 2) return {};
  for (auto& [node, there] : nodes)
    if (node >= 0) there = sample(node);
  const auto is_near = [](const NumaSample& s) { return s.known() && s.on_node >= s.elsewhere; };
  if (std::none_of(nodes.begin(), nodes.end(), [&](const auto& n) { return is_near(n.second); }))
    return {};
  std::vector<bool> far;
  for (const int node : rails) far.push_back(nodes[node].known() && !is_near(nodes[node]));
  return far;
}

NumaSample SampleTouched(std::span<const std::byte> bytes, int node) {
  const NumaSample asked = SampleNuma(bytes, SmallPageSize(), node);
  if (asked.source != NumaSource::kRefused) return asked;
  const NumaSample read = ReadNumaMaps(bytes, node);
  // Paged in on demand: what is not there yet may come from anywhere.
  return read.known() && read.absent == 0 ? read : asked;
}

}  // namespace peercache::rdma
