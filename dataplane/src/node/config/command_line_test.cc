#include "node/config/command_line.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using Values = std::map<std::string, std::string>;

// What peercached is told by a file with `file`, then by `arguments`.
Values Parse(const std::string& file, const std::string& arguments) {
  const peercache::testing::TempDir dir;
  const std::string path = dir.Write("peercached.toml", file);
  CLI::App app;
  Values values;
  AddNodeOptions(&app, &values);
  app.parse("--config " + path + " " + arguments);
  return values;
}

TEST(CommandLineTest, LaterSourcesWin) {
  const std::string file = "pool-size = \"64Gi\"\ngroup = \"file\"\nvnodes = 7\n";
  EXPECT_EQ(Parse(file, ""), (Values{{"pool-size", "64Gi"}, {"group", "file"}, {"vnodes", "7"}}));
  setenv("PEERCACHE_CLUSTER", "environment", 1);
  setenv("PEERCACHE_GROUP", "environment", 1);
  const auto values = Parse(file, "--vnodes 9");
  unsetenv("PEERCACHE_CLUSTER");
  unsetenv("PEERCACHE_GROUP");
  EXPECT_EQ(values, (Values{{"cluster", "environment"},
                            {"pool-size", "64Gi"},
                            {"group", "environment"},
                            {"vnodes", "9"}}));
}

TEST(CommandLineTest, ArgumentsWinOverTheEnvironmentWhichWinsOverTheFile) {
  setenv("PEERCACHE_GROUP", "environment", 1);
  setenv("PEERCACHE_VNODES", "", 1);  // not set
  const auto both = Parse("group = \"file\"\nvnodes = 7\n", "");
  const auto all = Parse("group = \"file\"\nvnodes = 7\n", "--group argument --vnodes 9");
  unsetenv("PEERCACHE_GROUP");
  unsetenv("PEERCACHE_VNODES");
  EXPECT_EQ(both, (Values{{"group", "environment"}, {"vnodes", "7"}}));
  EXPECT_EQ(all, (Values{{"group", "argument"}, {"vnodes", "9"}}));
}

TEST(CommandLineTest, WhatNobodyKnowsIsRefused) {
  EXPECT_THROW(Parse("pool-sise = 1\n", ""), CLI::ParseError);
  EXPECT_THROW(Parse("", "--pool-sise 1"), CLI::ParseError);
}

}  // namespace
}  // namespace peercache
