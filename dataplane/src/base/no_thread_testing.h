// NoMoreThreads: while it lives, no thread can be started in this process, as where the container's
// limit of processes is reached: the default stack of a thread is one that no address space has
// room for.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace peercache::testing {

class NoMoreThreads {
 public:
  NoMoreThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t vast = before_;
    EXPECT_EQ(pthread_attr_setstacksize(&vast, size_t{1} << 48), 0);
    EXPECT_EQ(pthread_setattr_default_np(&vast), 0);
  }
  ~NoMoreThreads() { EXPECT_EQ(pthread_setattr_default_np(&before_), 0); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace peercache::testing
