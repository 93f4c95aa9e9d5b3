// Exchange: one hostile connection to a server under test. It sends frames and raw bytes without
// waiting, takes answers as they come, and checks what holds for every server of ours: answers are
// well-formed, in order, and carry the id of their request.
#pragma once

#include <deque>
#include <vector>

#include "base/fd.h"
#include "fuzz.h"
#include "wire/frame.h"

namespace peercache::fuzz {

class Exchange {
 public:
  explicit Exchange(UniqueFd socket) : fd_(std::move(socket)) {}
  virtual ~Exchange() = default;
  int fd() const { return fd_.get(); }

  // After raw bytes it is not known any more which request an answer belongs to.
  void Raw(ConstBytes bytes);
  void Ask(MessageType type, ConstBytes body, int descriptor = -1);
  // Waits until every request has its answer, or the server has closed.
  void Await();
  // Sends no more, and takes all that is still to come.
  void Finish();

 protected:
  // A whole answer. `request` is null when it is not known.
  virtual void OnAnswer(const FrameHeader* request, ConstBytes frame, ConstBytes payload) = 0;

 private:
  void Send(ConstBytes bytes, int descriptor);
  void Receive();
  bool Take();

  UniqueFd fd_;
  bool raw_ = false, closed_ = false;
  uint64_t next_id_ = 1;
  std::deque<FrameHeader> asked_;
  std::vector<std::byte> received_;
};

}  // namespace peercache::fuzz
