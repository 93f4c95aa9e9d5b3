#include "base/permit.h"

#include <fcntl.h>

#include <new>
#include <utility>

namespace peercache {

Result<Permit> Permit::Create() {
  auto memory = MappedRegion::Create("peercache-permit", SmallPageSize(), HugePages::kOff);
  if (!memory.ok()) return memory.status();
  ::new (memory->data()) Word(0);
  return Permit(std::move(*memory));
}

Result<Permit> Permit::Map(UniqueFd fd) {
  // Touching memory that was cut off would end this process.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return InvalidArgument(
        "permit: the descriptor with Attach must be a memfd sealed with F_SEAL_SHRINK");
  auto memory = MappedRegion::Map(std::move(fd), sizeof(Word), MapAccess::kReadWrite);
  if (!memory.ok()) return memory.status().Annotate("permit");
  // A huge page that is not there ends it as well.
  if (memory->page_size() > SmallPageSize())
    return InvalidArgument("permit: the memfd with Attach must be of small pages");
  return Permit(std::move(*memory));
}

}  // namespace peercache
