// PageChecks: the checksums of a batch's pages. Whoever brings pages and waits for others meanwhile
// may have those looked at that are whole already.
#pragma once

#include <cstddef>

namespace peercache {

class PageChecks {
 public:
  virtual ~PageChecks() = default;
  // Its checksum is to be compared, and was not.
  virtual bool Wants(size_t page) const = 0;
  // All bytes of the page are in its destination. What comes of it counts when the reader reports
  // that the page has arrived; a page that it hands back is looked at anew.
  virtual void Check(size_t page) = 0;
};

}  // namespace peercache
