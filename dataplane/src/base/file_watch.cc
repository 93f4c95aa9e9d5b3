#include "base/file_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace peercache {

Result<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FromErrno(fmt::format("opening \"{}\"", path), errno);
  std::string contents;
  for (;;) {
    char part[4096];
    const ssize_t n = read(fd.get(), part, sizeof(part));
    if (n == 0) return contents;
    if (n < 0) {
      if (errno == EINTR) continue;
      return FromErrno(fmt::format("reading \"{}\"", path), errno);
    }
    contents.append(part, static_cast<size_t>(n));
    if (contents.size() > max_bytes) {
      return InvalidArgument(fmt::format("\"{}\" is larger than {} bytes", path, max_bytes));
    }
  }
}

bool Settled::Look(Contents contents) {
  const bool settled = contents == last_;
  last_ = std::move(contents);
  if (!settled || last_ == known_) return false;
  known_ = last_;
  return true;
}

FileWatch::FileWatch(std::vector<std::string> paths, Contents known, Duration every,
                     std::function<void(const Contents&)> changed)
    : paths_(std::move(paths)),
      every_(every),
      changed_(std::move(changed)),
      contents_(std::move(known)),
      thread_([this] { Run(); }) {}

FileWatch::~FileWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FileWatch::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, every_, [this] { return stop_; })) return;
    }
    Contents contents;
    for (const std::string& path : paths_) {
      auto read = ReadSmallFile(path, kMaxBytes);
      if (!read.ok()) break;
      contents.push_back(std::move(*read));
    }
    if (contents.size() == paths_.size() && contents_.Look(std::move(contents)))
      changed_(contents_.known());
  }
}

}  // namespace peercache
