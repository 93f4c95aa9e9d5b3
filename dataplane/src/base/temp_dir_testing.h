// A directory for a test, which is removed with everything in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace peercache::testing {

class TempDir {
 public:
  // `in`: /dev/shm for files that have to be memory, /var/tmp for those that have to be on a disk.
  explicit TempDir(const std::string& in = "/tmp") : path_(in + "/peercache-test-XXXXXX") {
    mkdtemp(path_.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // Replaces the file in one step, so that nobody ever reads half of it. Returns its path.
  std::string Write(const std::string& name, const std::string& contents) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file + ".new", std::ios::trunc) << contents;
    std::filesystem::rename(file + ".new", file);
    return file;
  }

 private:
  std::string path_;
};

}  // namespace peercache::testing
