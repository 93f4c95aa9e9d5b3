// The command line of peercached: every option of the table in config.h, each from the
// configuration file, the environment or the command line, later ones winning.
//
//   CLI::App app;
//   std::map<std::string, std::string> values;
//   AddNodeOptions(&app, &values);
//   CLI11_PARSE(app, argc, argv);
//   auto config = ParseConfig(values);
#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace peercache {

// `values` is filled when `app` parses, and must outlive it.
void AddNodeOptions(CLI::App* app, std::map<std::string, std::string>* values);

}  // namespace peercache
