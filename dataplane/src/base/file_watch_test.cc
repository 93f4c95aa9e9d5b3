#include "base/file_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

namespace peercache {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class FileWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/peercache-watch-XXXXXX";
    dir_ = mkdtemp(name);
    file_ = dir_ / "file";
  }
  void TearDown() override {
    watch_.reset();
    fs::remove_all(dir_);
  }
  static void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
  }
  void Watch(const std::string& known) {
    watch_.emplace(std::vector<std::string>{file_}, Contents{known}, 10ms,
                   [this](const Contents& contents) {
                     std::lock_guard lock(mutex_);
                     seen_.push_back(contents.front());
                   });
  }
  std::vector<std::string> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }
  // The watch has told of `n` changes, and tells of no more.
  void ExpectSeen(const std::vector<std::string>& expected) {
    const TimePoint deadline = Clock::now() + 10s;
    while (seen().size() < expected.size() && Clock::now() < deadline) {
      std::this_thread::sleep_for(5ms);
    }
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(seen(), expected);
  }

  fs::path dir_, file_;
  std::mutex mutex_;
  std::vector<std::string> seen_;
  std::optional<FileWatch> watch_;
};

TEST_F(FileWatchTest, TellsOfReplacedAndRewrittenFilesOnce) {
  Write(file_, "one");
  Watch("one");
  ExpectSeen({});
  Write(file_, "two");
  ExpectSeen({"two"});
  Write(dir_ / "new", "three");
  fs::rename(dir_ / "new", file_);
  ExpectSeen({"two", "three"});
}

TEST_F(FileWatchTest, FollowsALinkThatIsTurned) {
  // A mounted Secret: file -> ..data/file, ..data -> ..1, later ..2.
  fs::create_directory(dir_ / "..1");
  fs::create_directory(dir_ / "..2");
  Write(dir_ / "..1/file", "one");
  Write(dir_ / "..2/file", "two");
  fs::create_directory_symlink("..1", dir_ / "..data");
  fs::create_symlink("..data/file", file_);
  Watch("one");
  fs::create_directory_symlink("..2", dir_ / "..data.new");
  fs::rename(dir_ / "..data.new", dir_ / "..data");
  ExpectSeen({"two"});
}

TEST_F(FileWatchTest, AMissingFileIsNoChange) {
  Write(file_, "one");
  Watch("one");
  fs::remove(file_);
  ExpectSeen({});
  Write(file_, "one");
  ExpectSeen({});
  Write(file_, "two");
  ExpectSeen({"two"});
}

TEST_F(FileWatchTest, SeveralFilesChangeTogether) {
  const fs::path other = dir_ / "other";
  Write(file_, "one");
  watch_.emplace(std::vector<std::string>{file_, other}, Contents{"one", "1"}, 10ms,
                 [this](const Contents& contents) {
                   std::lock_guard lock(mutex_);
                   for (const std::string& text : contents) seen_.push_back(text);
                 });
  Write(file_, "two");
  ExpectSeen({});  // the other is missing
  Write(other, "2");
  ExpectSeen({"two", "2"});
}

TEST(SettledTest, WhatIsStillBeingWrittenDoesNotCount) {
  Settled contents(Contents{"one"});
  EXPECT_FALSE(contents.Look({"one"}));
  EXPECT_FALSE(contents.Look({""}));
  EXPECT_FALSE(contents.Look({"t"}));
  EXPECT_FALSE(contents.Look({"two"}));
  EXPECT_EQ(contents.known(), Contents{"one"});
  EXPECT_TRUE(contents.Look({"two"}));
  EXPECT_EQ(contents.known(), Contents{"two"});
  EXPECT_FALSE(contents.Look({"two"}));
  EXPECT_FALSE(contents.Look({"one"}));
  EXPECT_FALSE(contents.Look({"two"})) << "it was back before it settled";
  EXPECT_FALSE(contents.Look({"two"}));
}

TEST(SettledTest, AllFilesHaveToBeTheSameTwice) {
  Settled contents(Contents{"certificate", "key"});
  EXPECT_FALSE(contents.Look({"new certificate", "key"}));
  EXPECT_FALSE(contents.Look({"new certificate", "new key"}));
  EXPECT_TRUE(contents.Look({"new certificate", "new key"}));
}

TEST(ReadSmallFileTest, IsBoundedAndSaysWhatIsWrong) {
  EXPECT_FALSE(ReadSmallFile("/does/not/exist", 10).ok());
  EXPECT_FALSE(ReadSmallFile("/dev/zero", 10).ok());
  auto empty = ReadSmallFile("/dev/null", 10);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(*empty, "");
}

}  // namespace
}  // namespace peercache
