#include "node/command_line.h"

#include <CLI/CLI.hpp>
#include <cctype>

#include "node/config.h"

namespace peercache {
namespace {

std::string EnvironmentName(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return "PEERCACHE_" + name;
}

}  // namespace

void AddNodeOptions(CLI::App* app, std::map<std::string, std::string>* values) {
  app->set_config("--config", "", "Configuration file (TOML): option = value")
      ->envname("PEERCACHE_CONFIG");
  app->allow_config_extras(CLI::config_extras_mode::error);
  for (const ConfigOption& option : ConfigOptions()) {
    const std::string name = option.name;
    app->add_option_function<std::string>(
           "--" + name, [values, name](const std::string& value) { (*values)[name] = value; },
           option.help)
        ->envname(EnvironmentName(name))
        ->default_str(option.default_value)
        ->type_name("");
  }
}

}  // namespace peercache
