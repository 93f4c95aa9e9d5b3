// IoQueue: requests of an engine, first in, first out, by the links that they have for it.
#pragma once

#include "disk/io.h"

namespace peercache::disk {

class IoQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  void Push(IoRequest* request) {
    request->next_in_engine = nullptr;
    (empty() ? first_ : last_->next_in_engine) = request;
    last_ = request;
  }
  IoRequest* Pop() {
    IoRequest* request = first_;
    first_ = request->next_in_engine;
    return request;
  }

 private:
  IoRequest* first_ = nullptr;
  IoRequest* last_ = nullptr;
};

}  // namespace peercache::disk
