#include "exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

// A server that takes longer hangs.
constexpr std::chrono::seconds kPatience{50};

}  // namespace

void Exchange::Raw(ConstBytes bytes) {
  raw_ = true;
  Send(bytes, -1);
}

void Exchange::Ask(MessageType type, ConstBytes body, int descriptor) {
  FrameHeader header;
  header.type = type;
  header.request_id = next_id_++;
  header.body_length = static_cast<uint32_t>(body.size());
  asked_.push_back(header);
  Send(std::as_bytes(std::span(&header, 1)), descriptor);
  Send(body, -1);
}

void Exchange::Await() {
  while (Take()) {
  }
  while (!asked_.empty() && !raw_ && !closed_) {
    Require(*WaitFor(fd_.get(), POLLIN, Clock::now() + kPatience), "the server answers");
    Receive();
    while (Take()) {
    }
  }
}

void Exchange::Finish() {
  Await();
  shutdown(fd_.get(), SHUT_WR);
  while (!closed_) {
    Require(*WaitFor(fd_.get(), POLLIN, Clock::now() + kPatience), "the server closes");
    Receive();
  }
  while (Take()) {
  }
  fd_.Reset();
}

void Exchange::Send(ConstBytes bytes, int descriptor) {
  while (!bytes.empty() && !closed_) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec iov{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(c), &descriptor, sizeof(int));
    }
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
      descriptor = -1;
    } else if (errno == EAGAIN) {
      Receive();  // or both sides wait for each other
      Require(*WaitFor(fd_.get(), POLLOUT | POLLIN, Clock::now() + kPatience), "no deadlock");
    } else {
      return;  // closed, but there may be answers
    }
  }
}

void Exchange::Receive() {
  for (;;) {
    std::byte part[64 << 10];
    const ssize_t n = recv(fd_.get(), part, sizeof(part), 0);
    if (n > 0) {
      received_.insert(received_.end(), part, part + n);
      continue;
    }
    if (n == 0 || errno != EAGAIN) closed_ = true;
    return;
  }
}

bool Exchange::Take() {
  if (received_.size() < sizeof(FrameHeader)) return false;
  FrameHeader header;
  std::memcpy(&header, received_.data(), sizeof(header));
  Require(CheckHeader(header).ok(), "the server sends frames");
  const size_t frame = sizeof(header) + header.body_length;
  const size_t size = frame + header.payload_length;
  // A connection that is closed with unread input may lose the end of what was sent.
  if (received_.size() < size) return false;
  const std::vector<std::byte> answer(received_.begin(), received_.begin() + size);
  received_.erase(received_.begin(), received_.begin() + size);
  if (raw_) {
    OnAnswer(nullptr, std::span(answer).first(frame), std::span(answer).subspan(frame));
    return true;
  }
  Require(!asked_.empty(), "no answer without a request");
  const FrameHeader request = asked_.front();
  asked_.pop_front();
  Require(header.request_id == request.request_id, "answers come in order");
  const bool challenged =
      request.type == MessageType::kHello && header.type == MessageType::kChallenge;
  Require(header.type == MessageType::kError || challenged ||
              static_cast<int>(header.type) == static_cast<int>(request.type) + 1,
          "the type that is due");
  OnAnswer(&request, std::span(answer).first(frame), std::span(answer).subspan(frame));
  return true;
}

}  // namespace peercache::fuzz
