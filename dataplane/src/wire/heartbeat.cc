#include "wire/heartbeat.h"

#include <string_view>

#include "wire/fabric.h"
#include "wire/messages.h"

namespace peercache {

void Heartbeat::Encode(FrameWriter* w) const {
  EncodeMember(member, w);
  w->PutString(std::string_view(health.group).substr(0, kMaxIdBytes));
  w->Put(health.rails);
  w->Put(health.rails_up);
  w->PutString(std::string_view(health.rail_down).substr(0, kMaxRailNameBytes));
  w->Put(static_cast<uint8_t>(health.numa));
  w->Put(health.engines);
  w->Put(health.recent_reads);
  w->Put(health.recent_hits);
  w->Put(health.pool_used_bytes);
}

bool Heartbeat::Decode(FrameReader* r) {
  if (!DecodeMember(r, &member)) return false;
  health.group = r->GetName(kMaxIdBytes);
  health.rails = r->Get<uint8_t>();
  health.rails_up = r->Get<uint8_t>();
  health.rail_down = r->GetText(kMaxRailNameBytes);
  const auto numa = r->Get<uint8_t>();
  health.engines = r->Get<uint32_t>();
  health.recent_reads = r->Get<uint64_t>();
  health.recent_hits = r->Get<uint64_t>();
  health.pool_used_bytes = r->Get<uint64_t>();
  // What cannot be is no heartbeat; so nobody who adds these up has to ask.
  if (health.rails > kMaxRails || health.rails_up > health.rails) return false;
  if (health.recent_hits > health.recent_reads) return false;
  if (numa > static_cast<uint8_t>(NumaHealth::kMemoryElsewhere)) return false;
  health.numa = static_cast<NumaHealth>(numa);
  return r->AtEnd();
}

}  // namespace peercache
