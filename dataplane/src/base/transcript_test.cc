#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <stdexcept>

#include "base/temp_dir_testing.h"
#include "base/transcript_testing.h"

namespace peercache {
namespace {

class Environment {
 public:
  explicit Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

constexpr char kScript[] =
    "# The sum stays from step to step.\n> add 1\n1\n> nothing\n> add 2 3\n6\n\n> add 4\n4\n";

struct Sum {
  std::string operator()(const std::vector<std::string>& words) {
    if (words[0] == "nothing") return "";
    if (words[0] != "add") throw std::invalid_argument("no command " + words[0]);
    for (size_t i = 1; i < words.size(); ++i) sum += std::stoi(words[i]);
    return std::to_string(sum);
  }
  int sum = 0;
};

std::string path;  // EXPECT_NONFATAL_FAILURE has no locals
void RunSum() { testing::RunTranscript<Sum>(path); }

class Transcript : public ::testing::Test {
 protected:
  void Write(std::string what, const std::string& by, std::string script = kScript) {
    path = dir_.Write("sum.txt", script.replace(script.find(what), what.size(), by));
  }
  std::string Written() {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  const testing::TempDir dir_;
  const Environment no_rewrite_{"REWRITE", ""}, no_ci_{"CI", ""};
};

TEST_F(Transcript, PassesWhenAllStepsPrintWhatIsExpected) {
  Write("", "");
  RunSum();
}

TEST_F(Transcript, ADifferenceFailsWithItsLine) {
  Write("\n6\n", "\n7\n");
  EXPECT_NONFATAL_FAILURE(RunSum(), "sum.txt:5: > add 2 3");
  Write("> nothing\n", "> nothing\nat all\n");
  EXPECT_NONFATAL_FAILURE(RunSum(), "sum.txt:4: > nothing");
  Write("\n1\n", "\n");
  EXPECT_NONFATAL_FAILURE(RunSum(), "sum.txt:2: > add 1");
}

TEST_F(Transcript, WhatIsNoScriptFails) {
  Write("> add 4", "lost\n> add 4");
  EXPECT_NONFATAL_FAILURE(RunSum(), "no step prints this: lost");
  Write("x", "", "x# only a comment\n");
  EXPECT_NONFATAL_FAILURE(RunSum(), "has no step");
  path += ".gone";
  EXPECT_NONFATAL_FAILURE(RunSum(), "cannot be read");
}

TEST_F(Transcript, IsWrittenAnewWhereThatIsAsked) {
  const Environment rewrite("REWRITE", "1");
  Write("\n6\n", "\n7\nand more\n");
  RunSum();
  EXPECT_EQ(Written(), kScript) << "comments and empty lines stay";
}

TEST_F(Transcript, IsNotWrittenInCINorWhenAStepMakesNoSense) {
  const Environment rewrite("REWRITE", "1");
  Write("> nothing\n", "> nothnig\n");
  const std::string script = Written();
  EXPECT_NONFATAL_FAILURE(RunSum(), "no command nothnig");
  EXPECT_EQ(Written(), script);
  const Environment ci("CI", "true");
  Write("\n6\n", "\n6\n");
  EXPECT_NONFATAL_FAILURE(RunSum(), "REWRITE is set in CI");
}

}  // namespace
}  // namespace peercache
