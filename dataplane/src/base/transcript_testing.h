// Transcripts: tests that are scripts of steps, each with what it prints. internal/transcript has
// the same for Go.
//
//   # A comment.
//   > command word name=value
//   what it prints, if anything
//
// Steps follow each other up to an empty line. Behind it everything is new.
//
// With REWRITE=1 the script is written with what the steps print now. In CI that fails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::testing {

extern const char kTestSources[];  // dataplane/src, as CMake knows it

inline std::vector<std::string> SplitText(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Whether scripts are to be written anew. A failure in CI, where nobody would read them.
inline bool RewritesTranscripts() {
  const auto is_set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  if (!is_set("REWRITE")) return false;
  if (is_set("CI")) ADD_FAILURE() << "REWRITE is set in CI, which has to find what differs";
  return !is_set("CI");
}

// `file` is a path below dataplane/src, or an absolute one. A Script is a function: of the words of
// a step, which it does, to what is printed: lines, of which none is empty or begins with # or >.
// Where a step makes no sense it throws, and nothing is written.
template <class Script>
void RunTranscript(const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(kTestSources) / file;
  const bool rewrite = RewritesTranscripts();
  std::ifstream in(path);
  std::string before, after, step, expected;
  int number = 0, step_at = 0, steps = 0;
  bool sense = true;
  std::optional<Script> script;
  const auto end_step = [&] {
    if (step_at == 0) return;
    const ::testing::ScopedTrace trace(path.c_str(), step_at, "> " + step);
    if (!script) script.emplace();
    std::string printed;
    try {
      printed = (*script)(SplitText(step, ' '));
    } catch (const std::exception& wrong) {
      ADD_FAILURE() << wrong.what();
      sense = false;
    }
    if (!printed.empty() && !printed.ends_with('\n')) printed += '\n';
    if (!rewrite) {
      EXPECT_EQ(printed, expected) << "If it is right, run the test with REWRITE=1";
    }
    after += printed;
    expected.clear();
    step_at = 0;
    ++steps;
  };
  for (std::string line; std::getline(in, line);) {
    ++number;
    before += line + '\n';
    const bool begins = line.starts_with("> ");
    if (begins || line.empty() || line.starts_with('#')) {
      end_step();
      after += line + '\n';
      if (line.empty()) script.reset();
      if (!begins) continue;
      step = line.substr(2);
      step_at = number;
    } else if (step_at != 0) {
      expected += line + '\n';
    } else {
      ADD_FAILURE_AT(path.c_str(), number) << "no step prints this: " << line;
      sense = false;
    }
  }
  end_step();
  if (steps == 0) ADD_FAILURE() << path << " has no step, or cannot be read";
  if (rewrite && sense && after != before) std::ofstream(path, std::ios::trunc) << after;
}

}  // namespace peercache::testing
