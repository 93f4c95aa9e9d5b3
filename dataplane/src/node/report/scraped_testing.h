// What a node shows at /metrics, for tests.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <sstream>
#include <string>

#include "base/fd.h"
#include "node/node.h"

namespace peercache::testing {

inline std::string Exposition(const Node& node) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(node.http_port());
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(send(fd.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t n; (n = recv(fd.get(), part, sizeof(part), 0)) > 0;)
    answer.append(part, static_cast<size_t>(n));
  const size_t body = answer.find("\r\n\r\n");
  EXPECT_NE(body, answer.npos);
  return body == answer.npos ? "" : answer.substr(body + 4);
}

// Values by name and labels, as written.
class Scraped {
 public:
  explicit Scraped(const Node& node) {
    std::istringstream lines(Exposition(node));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#")) continue;
      const size_t space = line.rfind(' ');
      values_[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
  }
  double operator[](const std::string& series) const {
    const auto at = values_.find(series);
    EXPECT_NE(at, values_.end()) << series;
    return at == values_.end() ? -1 : at->second;
  }
  // Of all series of a family.
  double Sum(const std::string& family) const {
    double sum = 0;
    for (const auto& [series, value] : values_)
      if (series.starts_with(family + "{")) sum += value;
    return sum;
  }
  double Stage(const std::string& op, const std::string& stage, const char* part = "count") const {
    return (*this)["peercache_stage_latency_seconds_" + std::string(part) + "{op=\"" + op +
                   "\",stage=\"" + stage + "\"}"];
  }
  const std::map<std::string, double>& values() const { return values_; }

 private:
  std::map<std::string, double> values_;
};

}  // namespace peercache::testing
