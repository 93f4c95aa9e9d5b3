#include "wire/heartbeat.h"

#include <string_view>

#include "wire/fabric.h"
#include "wire/messages.h"

namespace peercache {

void Heartbeat::Encode(FrameWriter* w, uint16_t host) const {
  const bool crowds = (host & FrameHeader::kHearsCrowds) != 0;
  EncodeMember(member, crowds ? kMostListed : kMostListedBefore, w);
  w->PutString(std::string_view(health.group).substr(0, kMaxIdBytes));
  w->Put(health.rails);
  w->Put(health.rails_up);
  w->PutString(std::string_view(health.rail_down).substr(0, kMaxRailNameBytes));
  w->Put(static_cast<uint8_t>(health.numa));
  w->Put(health.engines);
  w->Put(health.recent_looked_up);
  w->Put(health.recent_delivered);
  w->Put(health.pool_used_bytes);
  if ((host & FrameHeader::kHearsLookups) == 0) return;
  w->Put(health.latest_looked_up);
  w->Put(health.latest_delivered);
  if ((host & FrameHeader::kHearsActivity) != 0 && health.activity)
    health.activity->Encode(w, (host & FrameHeader::kHearsDrives) != 0);
}

bool Heartbeat::Decode(FrameReader* r) {
  if (!DecodeMember(r, kMostListed, &member)) return false;
  health.group = r->GetName(kMaxIdBytes);
  health.rails = r->Get<uint8_t>();
  health.rails_up = r->Get<uint8_t>();
  health.rail_down = r->GetText(kMaxRailNameBytes);
  const auto numa = r->Get<uint8_t>();
  health.engines = r->Get<uint32_t>();
  health.recent_looked_up = r->Get<uint64_t>();
  health.recent_delivered = r->Get<uint64_t>();
  health.pool_used_bytes = r->Get<uint64_t>();
  const bool latest = !r->AtEnd();
  health.latest_looked_up = latest ? r->Get<uint64_t>() : 0;
  health.latest_delivered = latest ? r->Get<uint64_t>() : 0;
  // What cannot be is no heartbeat; so nobody who adds these up has to ask.
  if (health.rails > kMaxRails || health.rails_up > health.rails) return false;
  if (health.recent_delivered > health.recent_looked_up) return false;
  if (health.latest_delivered > health.latest_looked_up) return false;
  if (!latest) health.recent_looked_up = health.recent_delivered = 0;
  if (numa > static_cast<uint8_t>(NumaHealth::kMemoryElsewhere)) return false;
  health.numa = static_cast<NumaHealth>(numa);
  health.activity.reset();
  if (!r->ok() || r->AtEnd()) return r->ok();
  return health.activity.emplace().Decode(r) && r->AtEnd();
}

}  // namespace peercache
