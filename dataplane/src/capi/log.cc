// Where the library's log goes. It is set up when the library is loaded: spdlog's default logger
// must not be replaced while threads use it.
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "capi/error.h"
#include "peercache/libpeercache.h"

namespace peercache::capi {
namespace {

using Write = void (*)(void* context, int level, const char* line);

class Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void To(Write write, void* context) {
    std::lock_guard lock(mutex_);
    write_ = write;
    context_ = context;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (write_ != nullptr) {
      const std::string line(message.payload.data(), message.payload.size());
      write_(context_, LevelOf(message.level), line.c_str());
      return;
    }
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { fflush(stderr); }

 private:
  static int LevelOf(spdlog::level::level_enum level) {
    if (level >= spdlog::level::err) return 3;
    if (level == spdlog::level::warn) return 2;
    return level == spdlog::level::info ? 1 : 0;
  }
  Write write_ = nullptr;
  void* context_ = nullptr;
};

// Null where there was no memory for it: the log is spdlog's then.
std::shared_ptr<Sink> Install() noexcept {
  try {
    auto sink = std::make_shared<Sink>();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("peercache", sink));
    return sink;
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Never destroyed: threads of clients that are still open may log while the process ends.
const auto* const kSink = new (std::nothrow) std::shared_ptr<Sink>(Install());

}  // namespace
}  // namespace peercache::capi

void pc_log(void (*write)(void* context, int level, const char* line), void* context) {
  using peercache::capi::kSink;
  if (kSink != nullptr && *kSink) (*kSink)->To(write, context);
}
