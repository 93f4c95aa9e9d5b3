#include "node/config/command_line.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "node/config/config.h"

namespace peercache {
namespace {

std::string EnvironmentName(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return "PEERCACHE_" + name;
}

// CLI11 lets a file win over the environment. What the environment sets is left out of the file.
class FileBelowEnvironment : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    auto values = CLI::ConfigTOML::from_config(input);
    std::erase_if(values, [](const CLI::ConfigItem& item) {
      const char* value = std::getenv(EnvironmentName(item.name).c_str());
      return value != nullptr && *value != '\0';  // as CLI11 has it: empty is not set
    });
    return values;
  }
};

}  // namespace

void AddNodeOptions(CLI::App* app, std::map<std::string, std::string>* values) {
  app->config_formatter(std::make_shared<FileBelowEnvironment>());
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
