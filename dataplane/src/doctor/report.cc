#include "doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace peercache::doctor {
namespace {

using nlohmann::json;

// Columns as wide as their widest cell; no spaces at the ends of lines.
std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += fmt::format("  {:{}}", row[i].empty() ? "-" : row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string Lower(std::string text) {
  for (char& c : text)
    c = c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

const char* GradeName(Grade grade) {
  switch (grade) {
    case Grade::kOk: return "ok";
    case Grade::kNote: return "note";
    case Grade::kWarning: return "warning";
    case Grade::kFault: return "fault";
  }
  return "unknown";
}

int Report::ExitCode() const {
  Grade worst = Grade::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.grade);
  return worst == Grade::kFault ? 2 : worst == Grade::kWarning ? 1 : 0;
}

std::string RenderText(const Report& report) {
  std::string text;
  for (const Table& table : report.tables) {
    text += table.title + "\n";
    if (table.rows.empty()) {
      text += "  none\n\n";
      continue;
    }
    std::vector<std::vector<std::string>> rows;
    rows.emplace_back();
    for (const std::string& column : table.columns) rows.back().push_back(Upper(column));
    rows.insert(rows.end(), table.rows.begin(), table.rows.end());
    text += Columns(rows) + "\n";
  }
  text += "Findings\n";
  std::vector<std::vector<std::string>> rows;
  for (const Finding& f : report.findings) {
    const std::string name = GradeName(f.grade);
    // What needs a hand stands out without colours.
    rows.push_back({f.grade >= Grade::kWarning ? Upper(name) : name, f.subject, f.text});
  }
  return text + Columns(rows);
}

std::string RenderJson(const Report& report) {
  json document = {{"exit_code", report.ExitCode()}};
  document["findings"] = json::array();
  for (const Finding& f : report.findings)
    document["findings"].push_back(
        {{"grade", GradeName(f.grade)}, {"subject", f.subject}, {"text", f.text}});
  for (const Table& table : report.tables) {
    json& rows = document[table.name] = json::array();
    for (const auto& cells : table.rows) {
      json row = json::object();
      for (size_t i = 0; i < std::min(cells.size(), table.columns.size()); ++i)
        row[Lower(table.columns[i])] = cells[i];
      rows.push_back(std::move(row));
    }
  }
  // Names come from drivers and the network; whatever they hold must not take the report away.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace peercache::doctor
