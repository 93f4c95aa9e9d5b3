// OneThread: each test of a file starts no thread. Simulations say so of themselves:
// ThreadSanitizer has nothing to see in them and would take a sixth of its time for them, so its
// build leaves x_simulation_test.cc out (cmake/module.cmake).
#pragma once

#include <gtest/gtest.h>
#include <sys/single_threaded.h>

#include <memory>
#include <string_view>

namespace peercache::testing {

class OneThread : public ::testing::EmptyTestEventListener {
 public:
  // For a static of the file, with __FILE__.
  static bool In(std::string_view file) {
    auto made = std::make_unique<OneThread>(file);
    ::testing::UnitTest::GetInstance()->listeners().Append(made.release());  // which owns it
    return true;
  }
  explicit OneThread(std::string_view file) : file_(file) {}

 private:
  // The C library's word for it, which one thread that has ended takes back for good. Tests of
  // other files may have started some, where one process runs many; ctest gives each test its own.
  void OnTestStart(const ::testing::TestInfo& /*test*/) override {
    before_ = __libc_single_threaded;
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (test.file() != file_) return;
    EXPECT_EQ(__libc_single_threaded, before_) << "a thread: let ThreadSanitizer see this file too";
  }

  const std::string_view file_;
  char before_ = 0;
};

}  // namespace peercache::testing
