// What the doctor says: tables of what there is, and findings about it. Pure.
//
// A finding that is more than a note says in its text what to do. The exit code is that of the
// worst finding: 0 nothing is wrong, 1 warnings (it works, but not as well as it could), 2 faults
// (it will not work as configured).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::doctor {

enum class Grade : uint8_t { kOk, kNote, kWarning, kFault };
const char* GradeName(Grade grade);

struct Finding {
  Grade grade = Grade::kOk;
  std::string subject;  // "memlock", "mlx5_0 port 1"
  std::string text;
};

struct Table {
  std::string name;   // in JSON: "ports"
  std::string title;  // on paper: "RDMA ports"
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Report {
  std::vector<Table> tables;
  std::vector<Finding> findings;

  int ExitCode() const;
};

std::string RenderText(const Report& report);
// {"exit_code", "findings": [{grade, subject, text}], NAME OF TABLE: [{column: value}], ...}
std::string RenderJson(const Report& report);

}  // namespace peercache::doctor
