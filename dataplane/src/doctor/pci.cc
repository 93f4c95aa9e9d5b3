#include "doctor/pci.h"

#include <fstream>
#include <iterator>

#include "base/small_file.h"

namespace peercache::doctor {
namespace {

uint32_t Word(const std::string& bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]) |
         static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + 1])) << 8;
}

}  // namespace

double PciLink::gbps() const {
  // 8 of 10 bits up to generation 2, 128 of 130 from 3 on, 236 of 256 bytes of a flit from 6 on.
  const double coded = speed < 8 ? 0.8 : speed < 64 ? 128.0 / 130 : 236.0 / 256;
  return speed * lanes * coded;
}

DeviceControl DeviceControlOf(const std::string& configuration) {
  constexpr size_t kStatus = 0x06, kFirst = 0x34, kExpress = 0x10, kControl = 8;
  constexpr uint32_t kHasList = 1 << 4, kRelaxedOrdering = 1 << 4;
  // Without privileges the kernel shows the first 64 bytes.
  if (configuration.size() < 256 || (Word(configuration, kStatus) & kHasList) == 0) return {};
  size_t at = static_cast<uint8_t>(configuration[kFirst]) & 0xfc;
  // There is room for 48 capabilities; a list that is longer has a loop.
  for (int i = 0; i < 48 && at >= 0x40; ++i) {
    if (static_cast<uint8_t>(configuration[at]) == kExpress && at + kControl + 1 < 256) {
      const uint32_t control = Word(configuration, at + kControl);
      return {128u << (control >> 12 & 7), (control & kRelaxedOrdering) != 0};
    }
    at = static_cast<uint8_t>(configuration[at + 1]) & 0xfc;
  }
  return {};
}

PciLink ReadPciLink(const std::string& device, const std::string& sysfs) {
  const std::string path = sysfs + "/class/infiniband/" + device + "/device/";
  const auto number = [&](const char* file) {
    return ParseLeadingNumber<double>(ReadSmallFile(path + file)).value_or(0);
  };
  PciLink link;
  link.speed = number("current_link_speed");
  link.most_speed = number("max_link_speed");
  link.lanes = ReadNumber<uint32_t>(path + "current_link_width").value_or(0);
  link.most_lanes = ReadNumber<uint32_t>(path + "max_link_width").value_or(0);
  std::ifstream file(path + "config", std::ios::binary);
  const DeviceControl control =
      DeviceControlOf(std::string(std::istreambuf_iterator<char>(file), {}));
  link.read_request = control.read_request;
  link.relaxed_ordering = control.relaxed_ordering;
  link.iommu = ReadSmallFile(path + "iommu_group/type");
  return link;
}

}  // namespace peercache::doctor
