#include "doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace peercache::doctor {
namespace {

using ::testing::HasSubstr;

Report Sample() {
  return {{{"ports",
            "RDMA ports",
            {"port", "MTU", "bytes at once"},
            {{"mlx5_0 port 1", "4096", ""}, {"rxe0", "1024", "2Gi"}}},
           {"gids", "GIDs", {"index"}, {}}},
          {{Grade::kOk, "libibverbs", "it loads"}, {Grade::kFault, "memlock", "raise it"}}};
}

TEST(ReportTest, TheWorstFindingDecidesTheExitCode) {
  Report report;
  EXPECT_EQ(report.ExitCode(), 0);
  report.findings.push_back({Grade::kNote, "", ""});
  EXPECT_EQ(report.ExitCode(), 0);
  report.findings.push_back({Grade::kFault, "", ""});
  report.findings.push_back({Grade::kWarning, "", ""});
  EXPECT_EQ(report.ExitCode(), 2);
  report.findings.erase(report.findings.begin() + 1);
  EXPECT_EQ(report.ExitCode(), 1);
}

TEST(ReportTest, TablesAlignAndWhatNeedsAHandStandsOut) {
  EXPECT_EQ(RenderText(Sample()),
            "RDMA ports\n"
            "  PORT           MTU   BYTES AT ONCE\n"
            "  mlx5_0 port 1  4096  -\n"
            "  rxe0           1024  2Gi\n"
            "\n"
            "GIDs\n"
            "  none\n"
            "\n"
            "Findings\n"
            "  ok     libibverbs  it loads\n"
            "  FAULT  memlock     raise it\n");
}

TEST(ReportTest, JsonHasTheSame) {
  const auto document = nlohmann::json::parse(RenderJson(Sample()));
  EXPECT_EQ(document["exit_code"], 2);
  EXPECT_EQ(document["findings"][1]["grade"], "fault");
  EXPECT_EQ(document["findings"][1]["subject"], "memlock");
  EXPECT_EQ(document["ports"][1]["port"], "rxe0");
  EXPECT_EQ(document["ports"][1]["bytes_at_once"], "2Gi");
  EXPECT_TRUE(document["gids"].is_array());
}

TEST(ReportTest, BytesThatAreNoTextDoNotBreakJson) {
  Report report;
  report.findings.push_back({Grade::kOk, "\xff\xfe", "fine"});
  EXPECT_THAT(RenderJson(report), HasSubstr("fine"));
}

}  // namespace
}  // namespace peercache::doctor
