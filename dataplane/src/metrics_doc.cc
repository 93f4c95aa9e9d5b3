// metrics_doc: writes docs/metrics.md, or says whether it is what the code says.
//
//   metrics_doc FILE            # write it
//   metrics_doc --check FILE    # fail when it differs

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "node/report/metrics_markdown.h"

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string_view(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::fprintf(stderr, "usage: %s [--check] FILE\n", argv[0]);
    return 2;
  }
  const char* const path = argv[argc - 1];
  const std::string page = peercache::MetricsMarkdown();
  if (check) {
    std::ifstream file(path);
    const std::string there{std::istreambuf_iterator<char>(file), {}};
    if (there == page) return 0;
    std::fprintf(stderr, "%s is out of date: run make generate-metrics-doc\n", path);
    return 1;
  }
  std::ofstream file(path);
  if (!(file << page << std::flush)) {
    std::fprintf(stderr, "%s cannot be written\n", path);
    return 1;
  }
  return 0;
}
