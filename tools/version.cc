// `towpath version`.
#include "tools/command.h"
#include "tools/output.h"

namespace towpath::tools {

void add_version(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  when_chosen(command, exit, []() -> Result<Exit> {
    TOWPATH_TRY(print("towpath " TOWPATH_VERSION "\n"));
    return Exit::ok;
  });
}

}  // namespace towpath::tools
