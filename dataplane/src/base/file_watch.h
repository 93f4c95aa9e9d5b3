// FileWatch: tells when the contents of small files have changed, for secrets and certificates that
// are replaced while the process runs.
//
//   FileWatch watch({path}, {contents}, std::chrono::seconds(2), [](const Contents& now) {...});
//
// Looks at the files on a thread of its own, because a file may lie on a file system that blocks.
// Contents count once all were the same in two looks, so that nobody acts on half a file, or on a
// certificate whose key is not there yet. Works with files that are replaced, written in place, or
// behind a symbolic link that is turned, as Kubernetes does it. While a file is missing or
// unreadable, nothing has changed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace peercache {

// The whole file; an error above `max_bytes`.
Result<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);

using Contents = std::vector<std::string>;  // of the files, in their order

// Which contents count: those that two looks in a row have found.
class Settled {
 public:
  explicit Settled(Contents known) : known_(known), last_(std::move(known)) {}
  // True when `contents` count from now on and are new.
  bool Look(Contents contents);
  const Contents& known() const { return known_; }

 private:
  Contents known_, last_;
};

class FileWatch {
 public:
  static constexpr size_t kMaxBytes = 1 << 20;

  // `known` is what the caller has read already. `changed` is called on the watch's thread.
  FileWatch(std::vector<std::string> paths, Contents known, Duration every,
            std::function<void(const Contents& contents)> changed);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Run();

  const std::vector<std::string> paths_;
  const Duration every_;
  const std::function<void(const Contents&)> changed_;
  Settled contents_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache
