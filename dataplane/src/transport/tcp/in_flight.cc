#include "transport/tcp/in_flight.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace peercache {
namespace {

// To linger for no time is to drop what the socket holds, and to send a reset.
void Linger(int socket, bool none) {
  const linger choice{.l_onoff = none ? 1 : 0, .l_linger = 0};
  (void)setsockopt(socket, SOL_SOCKET, SO_LINGER, &choice, sizeof(choice));
}

}  // namespace

void InFlight::ResetAtKill(int socket) { Linger(socket, true); }

bool InFlight::Settle(int socket, uint64_t written) {
  if (pages_.empty()) return true;
  if (written < end_) return false;
  int unacknowledged = 0;
  if (ioctl(socket, SIOCOUTQ, &unacknowledged) != 0) return false;
  if (written - static_cast<uint64_t>(unacknowledged) < end_) return false;
  pages_.clear();
  end_ = UINT64_MAX;
  return true;
}

void InFlight::BeforeClose(int socket, uint64_t written) {
  Linger(socket, !Settle(socket, written));
}

}  // namespace peercache
